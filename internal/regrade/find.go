package regrade

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/evalrun/evalrun/reports"
)

// Log is one stored log, with the folder of its attempt where it has one.
type Log struct {
	RunID      string
	Model      string
	InstanceID string
	Dir        string // folder of the attempt; "" for a file that stands alone
	Path       string // test_output.txt; "" if there is none

	own      *reports.Attempt // attempt.json, where the attempt was evalrun's
	unusable string           // why what is there cannot be graded
}

// attemptFiles are what the folder of an attempt is known by.
var attemptFiles = []string{testOutput, "attempt.json", "report.json", "run_instance.log", "patch.diff"}

const testOutput = "test_output.txt"

// Find looks for the logs below a folder: the official logs/run_evaluation or any
// part of it, down to the folder of one attempt. A file is one log. Run, model and
// instance are what the folders are called, or what attempt.json says.
func Find(root string) ([]Log, error) {
	info, err := os.Stat(root)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if filepath.Base(abs) == testOutput {
			return attemptIn(filepath.Dir(abs))
		}
		return []Log{{Path: root}}, nil
	}
	w := walker{seen: map[string]bool{}}
	w.walk(abs)
	if len(w.logs) == 0 && len(w.errs) == 0 {
		return nil, fmt.Errorf("%s: no attempt is below this folder; one is <run>/<model>/<instance>/%s", root, testOutput)
	}
	return w.logs, errors.Join(w.errs...)
}

// walker goes through folders, and through links to folders, each once.
type walker struct {
	seen map[string]bool // real paths
	logs []Log
	errs []error
}

func (w *walker) walk(dir string) {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil && w.seen[real] {
		return
	}
	w.seen[real] = true
	if err == nil && isAttempt(dir) {
		log, err := attemptIn(dir)
		w.logs = append(w.logs, log...)
		if err != nil {
			w.errs = append(w.errs, err)
		}
		return
	}
	entries, readErr := os.ReadDir(dir)
	if err = errors.Join(err, readErr); err != nil {
		w.errs = append(w.errs, err)
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		folder := entry.IsDir()
		if entry.Type()&fs.ModeSymlink != 0 {
			info, err := os.Stat(path)
			folder = err == nil && info.IsDir()
		}
		if folder {
			w.walk(path)
		}
	}
}

func isAttempt(dir string) bool {
	for _, name := range attemptFiles {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	_, err := os.Lstat(filepath.Join(dir, testOutput)) // whatever it is
	return err == nil
}

func attemptIn(dir string) ([]Log, error) {
	log := Log{Dir: dir, InstanceID: filepath.Base(dir), Model: filepath.Base(filepath.Dir(dir)), RunID: filepath.Base(filepath.Dir(filepath.Dir(dir)))}
	path := filepath.Join(dir, testOutput)
	switch info, err := os.Stat(path); {
	case err == nil && info.Mode().IsRegular():
		log.Path = path
	case err == nil:
		log.unusable = fmt.Sprintf("%s is no regular file (%s)", testOutput, info.Mode().Type())
	case !errors.Is(err, fs.ErrNotExist):
		log.unusable = err.Error()
	default:
		if _, err := os.Lstat(path); err == nil {
			log.unusable = testOutput + " is a link to nothing"
		}
	}
	own, err := reports.ReadAttempt(filepath.Join(dir, "attempt.json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		// Without its record it cannot be told what decided: the log of a run of ours
		// may hold what a patch has put there.
		err = fmt.Errorf("attempt.json %w", err)
		log.unusable = err.Error()
		return []Log{log}, fmt.Errorf("%s: %w", dir, err)
	}
	if own != nil {
		log.own = own
		log.InstanceID, log.Model, log.RunID = own.InstanceID, own.Model, own.RunID
	}
	return []Log{log}, nil
}

// IsModel reports whether a model's name is the one a folder stands for: the
// official harness writes "/" as "__".
func (l *Log) IsModel(name string) bool {
	return l.Model == name || l.Model == strings.ReplaceAll(name, "/", "__")
}

// OwnLog is the log of an attempt of evalrun's, wherever it lies now.
func OwnLog(path string, own *reports.Attempt) Log {
	l := Log{RunID: own.RunID, Model: own.Model, InstanceID: own.InstanceID, own: own}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		l.Path = path
	}
	return l
}
