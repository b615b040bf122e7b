package swebench

import (
	"bufio"
	"regexp"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// patchedFile is one file of a test patch. Old is empty for a created file, New
// for a deleted one; they differ for a renamed one.
type patchedFile struct{ old, new string }

// patchedFiles lists the files of a test patch in order. A patch that cannot be
// read properly is read for its headers only: which files are touched is
// needed even then, and whether it applies is for git to say.
func patchedFiles(patch string) []patchedFile {
	// The official scripts hand git one empty line too many.
	text := strings.TrimRight(patch, "\n") + "\n"
	parsed, _, err := gitdiff.Parse(strings.NewReader(text))
	if err != nil {
		return headerFiles(text)
	}
	var files []patchedFile
	for _, f := range parsed {
		files = append(files, patchedFile{old: f.OldName, new: f.NewName})
	}
	return files
}

var diffHeader = regexp.MustCompile(`^diff --git a/(.*) b/(.*)$`)

func headerFiles(patch string) []patchedFile {
	var files []patchedFile
	sc := bufio.NewScanner(strings.NewReader(patch))
	sc.Buffer(nil, len(patch)+1)
	header := false
	for sc.Scan() {
		line := strings.TrimSuffix(sc.Text(), "\r")
		if m := diffHeader.FindStringSubmatch(line); m != nil {
			files = append(files, patchedFile{old: m[1], new: m[2]})
			header = true
			continue
		}
		if strings.HasPrefix(line, "@@") {
			header = false
		}
		if !header {
			continue
		}
		switch last := &files[len(files)-1]; {
		case strings.HasPrefix(line, "new file mode"):
			last.old = ""
		case strings.HasPrefix(line, "deleted file mode"):
			last.new = ""
		}
	}
	return files
}

// splitReset says which files of a test patch exist at the base commit, under
// their old names, and which the patch creates. The names a rename leads to are
// in neither: the official harness forgets them.
func splitReset(files []patchedFile) (modified, created []string) {
	for _, f := range files {
		if f.old != "" {
			modified = appendNew(modified, f.old)
		} else if f.new != "" {
			created = appendNew(created, f.new)
		}
	}
	return modified, created
}

// allPaths lists every path a test patch touches, on either side.
func allPaths(files []patchedFile) []string {
	var paths []string
	for _, f := range files {
		for _, p := range []string{f.old, f.new} {
			if p != "" {
				paths = appendNew(paths, p)
			}
		}
	}
	return paths
}

// appendNew appends those items that are not in the list yet.
func appendNew(list []string, items ...string) []string {
	for _, item := range items {
		found := false
		for _, have := range list {
			found = found || have == item
		}
		if !found {
			list = append(list, item)
		}
	}
	return list
}
