package reports

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sync/errgroup"

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
	if err := WriteReport(l, a); err != nil {
		return err
	}
	if err := writeJSON(files.Attempt, a); err != nil {
		return fmt.Errorf("instance %s: write attempt.json: %w", a.InstanceID, err)
	}
	return nil
}

// WriteReport writes the official report.json where grading was reached, and
// removes an earlier one where it was not.
func WriteReport(l Layout, a *Attempt) error {
	path := l.Instance(a.RunID, a.Model, a.InstanceID).Report
	if !GradingReached(a) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("instance %s: remove the report.json of an earlier attempt: %w", a.InstanceID, err)
		}
		return nil
	}
	data, err := OfficialReport(a)
	if err != nil {
		return fmt.Errorf("instance %s: encode report.json: %w", a.InstanceID, err)
	}
	if err := writeFile(path, data); err != nil {
		return fmt.Errorf("instance %s: write report.json: %w", a.InstanceID, err)
	}
	return nil
}

// LoadAttempts reads back the attempts of one model in a run, ordered by
// instance. Files that are torn, foreign or of a newer schema are left out and
// reported one by one; a folder without attempt.json is no attempt of ours and
// is passed over. No folder at all means no attempts.
func LoadAttempts(l Layout, run, model string) ([]Attempt, []LoadError) {
	return loadAttempts(l, run, model, readAttempt)
}

// LoadOutcomes is LoadAttempts for those who want to know only how attempts
// ended, and soon: of each file only the beginning is read, up to the reason.
func LoadOutcomes(l Layout, run, model string) ([]Attempt, []LoadError) {
	return loadAttempts(l, run, model, readHead)
}

// loadAttempts reads the files several at a time; found and bad are as if they had
// been read one after the other.
func loadAttempts(l Layout, run, model string, read func(path, run, model string) (*Attempt, error)) ([]Attempt, []LoadError) {
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
	all := make([]*Attempt, len(entries))
	errs := make([]error, len(entries))
	var g errgroup.Group
	g.SetLimit(runtime.NumCPU())
	const batch = 32
	for from := 0; from < len(entries); from += batch {
		g.Go(func() error {
			for i := from; i < min(from+batch, len(entries)); i++ {
				all[i], errs[i] = read(filesIn(filepath.Join(dir, entries[i].Name())).Attempt, run, model)
			}
			return nil
		})
	}
	g.Wait()
	for i, entry := range entries {
		files := filesIn(filepath.Join(dir, entry.Name()))
		a, err := all[i], errs[i]
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
	a, err := ReadAttempt(path)
	if err != nil || a == nil {
		return nil, err
	}
	return a, a.belongs(run, model)
}

// ReadAttempt reads one attempt.json, of whatever run and model. It is nil where
// the path leads through what is no folder.
func ReadAttempt(path string) (*Attempt, error) {
	data, err := ReadRegular(path)
	if err != nil || data == nil {
		return nil, err
	}
	var a Attempt
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, fmt.Errorf("is torn or not an attempt.json: %w", err)
	}
	if err := a.usable(); err != nil {
		return nil, err
	}
	return &a, nil
}

// readHead reads a file up to the reason. Files are written whole or not at all,
// so that what follows need not be looked at.
func readHead(path, run, model string) (*Attempt, error) {
	// A pipe of this name must not hold us.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, syscall.ENOTDIR) {
			return nil, nil // a stray file between the instance folders
		}
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	var a Attempt
	if err := a.decodeHead(json.NewDecoder(io.LimitReader(f, maxAttemptBytes))); err != nil {
		return nil, fmt.Errorf("is torn or not an attempt.json: %w", err)
	}
	if err := a.usable(); err != nil {
		return nil, err
	}
	return &a, a.belongs(run, model)
}

// decodeHead stops at the first key that is none of the head's when all of the
// head that must be there has been seen.
func (a *Attempt) decodeHead(dec *json.Decoder) error {
	if t, err := dec.Token(); err != nil {
		return err
	} else if t != json.Delim('{') {
		return errors.New("is no object")
	}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		var into any
		switch t {
		case "schema_version":
			into = &a.SchemaVersion
		case "instance_id":
			into = &a.InstanceID
		case "model_name_or_path":
			into = &a.Model
		case "repo":
			into = &a.Repo
		case "run_id":
			into = &a.RunID
		case "attempt":
			into = &a.Attempt
		case "key":
			into = &a.Key
		case "run_key":
			into = &a.RunKey
		case "outcome":
			into = &a.Outcome
		case "reason":
			into = &a.Reason
		default:
			if a.SchemaVersion != 0 && a.InstanceID != "" && a.Model != "" && a.RunID != "" && a.Outcome != "" {
				return nil
			}
			into = new(json.RawMessage)
		}
		if err := dec.Decode(into); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// usable checks that a record is one that can be read.
func (a *Attempt) usable() error {
	switch {
	case a.SchemaVersion != AttemptSchema:
		return fmt.Errorf("has schema_version %d, this evalrun reads %d", a.SchemaVersion, AttemptSchema)
	case a.InstanceID == "" || a.Outcome == "":
		return errors.New("has no instance_id or no outcome")
	case !slices.Contains(Outcomes(), a.Outcome):
		return fmt.Errorf("has outcome %q, which this evalrun does not know", a.Outcome)
	}
	return nil
}

// belongs checks that a record is one of this model's in this run.
func (a *Attempt) belongs(run, model string) error {
	switch {
	case a.RunID != run:
		return fmt.Errorf("is of run %q, not %q", a.RunID, run)
	case a.Model != model:
		return fmt.Errorf("is of model %q, not %q", a.Model, model)
	}
	return nil
}

// ReadRegular reads a file that people may have put there: of at most 64 MiB, and
// never a device or a pipe, which could block. It is nil where the path leads through
// what is no folder.
func ReadRegular(path string) ([]byte, error) {
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
		return nil, fmt.Errorf("has %d bytes, more than %d MiB", info.Size(), maxAttemptBytes>>20)
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
