package reports

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/evalrun/evalrun/cache"
)

// maxAttemptBytes bounds what is read as an attempt.json; a foreign file of
// that name must not fill the memory.
const maxAttemptBytes = 64 << 20

// LoadError says which file of a run could not be used, and why.
type LoadError struct {
	Path string
	Err  error
}

func (e LoadError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }
func (e LoadError) Unwrap() error { return e.Err }

// WriteAttempt writes report.json, where the official harness would have one,
// and then attempt.json, which makes the attempt count. A report.json of an
// earlier attempt goes away when this one did not reach grading. It fills
// a.Sign from the logs in place, if it was not filled before.
func WriteAttempt(l Layout, a *Attempt) error {
	files := l.Instance(a.RunID, a.Model, a.InstanceID)
	if a.SchemaVersion == 0 {
		a.SchemaVersion = AttemptSchema
	}
	if a.Sign == (FailureSign{}) && wantsSign(a) {
		a.Sign = ScanLogs(files.TestOutput, files.Log)
	}
	if GradingReached(a) {
		data, err := OfficialReport(a)
		if err != nil {
			return fmt.Errorf("instance %s: encode report.json: %w", a.InstanceID, err)
		}
		if err := writeFile(files.Report, data); err != nil {
			return fmt.Errorf("instance %s: write report.json: %w", a.InstanceID, err)
		}
	} else if err := os.Remove(files.Report); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("instance %s: remove the report.json of an earlier attempt: %w", a.InstanceID, err)
	}
	if err := writeJSON(files.Attempt, a); err != nil {
		return fmt.Errorf("instance %s: write attempt.json: %w", a.InstanceID, err)
	}
	return nil
}

// LoadAttempts reads back the attempts of one model in a run, ordered by
// instance. Files that are torn, foreign or of a newer schema are left out and
// reported one by one; a folder without attempt.json is no attempt of ours and
// is passed over. No folder at all means no attempts.
func LoadAttempts(l Layout, run, model string) ([]Attempt, []LoadError) {
	dir := l.ModelDir(run, model)
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, []LoadError{{dir, err}}
	}
	var bad []LoadError
	found := map[string]Attempt{}
	for _, entry := range entries {
		files := filesIn(filepath.Join(dir, entry.Name()))
		a, err := readAttempt(files.Attempt, run, model)
		if errors.Is(err, fs.ErrNotExist) || (err == nil && a == nil) {
			continue
		}
		if err == nil {
			err = keep(found, l, a, entry.Name())
		}
		if err != nil {
			bad = append(bad, LoadError{files.Attempt, err})
		}
	}
	attempts := make([]Attempt, 0, len(found))
	for _, a := range found {
		attempts = append(attempts, a)
	}
	slices.SortFunc(attempts, func(a, b Attempt) int { return cmp.Compare(a.InstanceID, b.InstanceID) })
	return attempts, bad
}

// keep adds a to found unless it lies in a folder of another instance, or in
// the second of two folders for the same one.
func keep(found map[string]Attempt, l Layout, a *Attempt, dir string) error {
	if dir != component(a.InstanceID) && dir != hashed(a.InstanceID) {
		return fmt.Errorf("is of instance %q, which does not belong in this folder; move it away", a.InstanceID)
	}
	want := filepath.Base(l.Instance(a.RunID, a.Model, a.InstanceID).Dir)
	if _, twice := found[a.InstanceID]; twice && dir != want {
		return fmt.Errorf("instance %q has another folder, %s, which is the one used", a.InstanceID, want)
	}
	found[a.InstanceID] = *a
	return nil
}

func readAttempt(path, run, model string) (*Attempt, error) {
	data, err := readRegular(path)
	if err != nil || data == nil {
		return nil, err
	}
	var a Attempt
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, fmt.Errorf("is torn or not an attempt.json; the instance will be run again: %w", err)
	}
	switch {
	case a.SchemaVersion != AttemptSchema:
		return nil, fmt.Errorf("has schema_version %d, this evalrun reads %d", a.SchemaVersion, AttemptSchema)
	case a.InstanceID == "" || a.Outcome == "":
		return nil, errors.New("has no instance_id or no outcome; the instance will be run again")
	case a.RunID != run:
		return nil, fmt.Errorf("is of run %q, not %q", a.RunID, run)
	case a.Model != model:
		return nil, fmt.Errorf("is of model %q, not %q", a.Model, model)
	}
	return &a, nil
}

// readRegular reads a file, never a device or a pipe, which could block.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		if dir, dirErr := os.Stat(filepath.Dir(path)); dirErr == nil && !dir.IsDir() {
			return nil, nil // a stray file between the instance folders
		}
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	if info.Size() > maxAttemptBytes {
		return nil, fmt.Errorf("has %d bytes, too many for an attempt.json", info.Size())
	}
	data, err := os.ReadFile(path)
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, err
}

// writeJSON writes one of our own files: two spaces, UTF-8, no HTML escapes.
func writeJSON(path string, v any) error {
	data, err := encodeJSON(v, "  ")
	if err != nil {
		return err
	}
	return writeFile(path, data)
}

func encodeJSON(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func writeFile(path string, data []byte) error { return cache.WriteFile(path, data, 0o666) }
