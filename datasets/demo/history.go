package demo

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// history is one repository as its txtar source tells it.
type history struct {
	name    string // without owner
	commits []commit
}

// commit is one commit on the main branch.
type commit struct {
	key     string // what the source calls it: "1", "2", …
	date    time.Time
	tag     string // "" for none
	message string
	files   []txtar.File // those it adds or changes
}

// readHistories returns the histories of all repositories, by name.
func readHistories() ([]history, error) {
	names, err := fs.Glob(histories, "src/repos/*.txtar")
	if err != nil {
		return nil, err
	}
	var all []history
	for _, name := range names {
		data, err := histories.ReadFile(name)
		if err != nil {
			return nil, err
		}
		h, err := parseHistory(strings.TrimSuffix(path.Base(name), ".txtar"), data)
		if err != nil {
			return nil, fmt.Errorf("demo: %s: %w", name, err)
		}
		all = append(all, h)
	}
	return all, nil
}

// parseHistory reads a source: sections "N/commit" (header and message) and,
// after it, "N/path" for each file commit N adds or changes.
func parseHistory(name string, data []byte) (history, error) {
	h := history{name: name}
	// txtar panics on a marker without even a space for the name.
	for line := range bytes.Lines(data) {
		if string(bytes.TrimSpace(line)) == "-- --" {
			return h, fmt.Errorf("section without a name")
		}
	}
	for _, section := range txtar.Parse(data).Files {
		key, file, ok := strings.Cut(section.Name, "/")
		if !ok {
			return h, fmt.Errorf("section %q: want commit/path", section.Name)
		}
		if file == "commit" {
			c, err := parseCommit(key, section.Data)
			if err != nil {
				return h, fmt.Errorf("section %q: %w", section.Name, err)
			}
			h.commits = append(h.commits, c)
			continue
		}
		if len(h.commits) == 0 || h.commits[len(h.commits)-1].key != key {
			return h, fmt.Errorf("section %q: it must follow section %q", section.Name, key+"/commit")
		}
		last := &h.commits[len(h.commits)-1]
		last.files = append(last.files, txtar.File{Name: file, Data: section.Data})
	}
	if len(h.commits) == 0 {
		return h, fmt.Errorf("no commits")
	}
	return h, nil
}

// parseCommit reads "date:" and "tag:" lines, an empty line, and the message.
func parseCommit(key string, data []byte) (commit, error) {
	c := commit{key: key}
	header, message, ok := bytes.Cut(data, []byte("\n\n"))
	if !ok || len(bytes.TrimSpace(message)) == 0 {
		return c, fmt.Errorf("no message: it follows the header after an empty line")
	}
	c.message = string(message)
	for line := range strings.Lines(string(header)) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch field {
		case "date":
			date, err := time.Parse(time.RFC3339, value)
			if err != nil {
				return c, err
			}
			c.date = date
		case "tag":
			c.tag = value
		default:
			return c, fmt.Errorf("unknown header line %q", line)
		}
	}
	if c.date.IsZero() {
		return c, fmt.Errorf("no date")
	}
	return c, nil
}

// fastImport returns the history as a stream for "git fast-import". Everything
// that goes into a commit id is in the source or constant, so the ids are the
// same wherever the stream is read.
func (h *history) fastImport() []byte {
	const person = "Demo Author <demo@example.com>"
	var s bytes.Buffer
	blob := func(data []byte) { fmt.Fprintf(&s, "data %d\n%s\n", len(data), data) }
	for i, c := range h.commits {
		when := fmt.Sprintf("%s %d +0000", person, c.date.Unix())
		fmt.Fprintf(&s, "commit refs/heads/main\nmark :%d\nauthor %s\ncommitter %s\n", i+1, when, when)
		blob([]byte(c.message))
		for _, file := range c.files {
			fmt.Fprintf(&s, "M 100644 inline %s\n", file.Name)
			blob(file.Data)
		}
		if c.tag != "" {
			fmt.Fprintf(&s, "tag %s\nfrom :%d\ntagger %s\n", c.tag, i+1, when)
			blob([]byte("Release " + c.tag + "\n"))
		}
	}
	s.WriteString("done\n")
	return s.Bytes()
}
