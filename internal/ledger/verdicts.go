package ledger

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/evalrun/evalrun/cache"
	"github.com/evalrun/evalrun/datasets"
	"github.com/evalrun/evalrun/reports"
)

// VerdictsDir is the folder, below the cache folder, of the results of all runs.
func VerdictsDir(cacheDir string) string { return filepath.Join(cacheDir, "verdicts") }

// VerdictsLimit is how many bytes of them are kept.
const VerdictsLimit = 2 << 30

// Verdicts are the results of all runs that use a cache folder. An entry is what
// zstd makes of an attempt's record in one line and its log.
func Verdicts(cacheDir string) *cache.Store {
	return cache.NewStore(VerdictsDir(cacheDir), VerdictsLimit)
}

// verdict is the first line of an entry.
type verdict struct {
	Place   string          // of the run it was made in: names of runs are used again
	Attempt json.RawMessage // reports.Attempt
	Log     string          // SHA-256
	Sum     string          // of the others
}

// sum is what Sum has to be: an entry that was damaged, or carelessly written in, is none.
// It has no key, and keeps nobody who can write there from making an entry that fits.
func (v *verdict) sum() string {
	return cache.NewKey("verdict").String("place", v.Place).String("attempt", string(v.Attempt)).String("log", v.Log).Sum()
}

// placeOf tells runs of one name apart, and says nothing of where they are.
func placeOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:])
}

func putVerdict(s *cache.Store, place string, a *reports.Attempt, log string) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	v := verdict{Place: place, Attempt: text}
	digest := sha256.New()
	if err := copyFile(digest, log); err != nil {
		return err
	}
	v.Log = hex.EncodeToString(digest.Sum(nil))
	v.Sum = v.sum()
	return s.Put(a.RunKey, func(w io.Writer) error {
		z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		enc := json.NewEncoder(z)
		enc.SetEscapeHTML(false) // the attempt stays as it was hashed
		err = enc.Encode(v)
		if err == nil {
			err = copyFile(z, log)
		}
		return errors.Join(err, z.Close())
	})
}

// Has reports whether there is a result of another run for a key of what is run.
func Has(verdicts *cache.Store, runKey string) bool { return runKey != "" && verdicts.Has(runKey) }

func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}

// cached is the result of another run at the same. An entry that cannot be read is
// none.
func (l *Ledger) cached(ctx context.Context, want *reports.Attempt, inst *datasets.Instance) (*reports.Attempt, error) {
	if l.o.Verdicts == nil || want.RunKey == "" {
		return nil, nil
	}
	f, err := l.o.Verdicts.Open(want.RunKey)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.warnOnce(fmt.Sprintf("results of other runs cannot be read: %v", err))
		}
		return nil, nil
	}
	defer f.Close()
	if _, err := l.makeWay(want); err != nil {
		return nil, err
	}
	log := l.files(want).TestOutput
	found, from, err := readVerdict(f, log, want)
	if errors.Is(err, errPlace) {
		return nil, fmt.Errorf("instance %s: %w", want.InstanceID, err)
	}
	if err != nil {
		if !errors.Is(err, errOldVerdict) {
			l.o.Warn(fmt.Sprintf("instance %s: a result of another run is damaged, and made again: %s: %v", want.InstanceID, f.Name(), err))
		}
		if err := l.o.Verdicts.Remove(want.RunKey); err != nil {
			l.o.Warn(fmt.Sprintf("and it cannot be removed: %v", err))
		}
		return nil, nil
	}
	a, err := l.fit(ctx, found, log, want, inst)
	if a != nil && from != l.place && a.ReusedFrom == nil {
		origin := found.Origin()
		a.Reused, a.ReusedFrom = true, &origin
	}
	return a, err
}

var (
	errOldVerdict = errors.New("it is of a version that wrote no digest")
	errRewritten  = errors.New("it is not what was written: its digest does not fit")
)

// readVerdict reads an entry, puts its log in place, and says where it was made.
func readVerdict(r io.Reader, log string, want *reports.Attempt) (found *reports.Attempt, from string, err error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return nil, "", err
	}
	defer z.Close()
	in := bufio.NewReader(z)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, "", err
	}
	var v verdict
	var a reports.Attempt
	if err := json.Unmarshal(line, &v); err != nil {
		return nil, "", err
	}
	switch {
	case v.Sum == "":
		return nil, "", errOldVerdict
	case v.Sum != v.sum():
		return nil, "", errRewritten
	}
	if err := json.Unmarshal(v.Attempt, &a); err != nil {
		return nil, "", err
	}
	if a.RunKey != want.RunKey || !shareable(&a) {
		return nil, "", errors.New("it is of another key")
	}
	digest := sha256.New()
	var rest io.Reader // nil is no log at all
	if _, empty := in.Peek(1); !errors.Is(empty, io.EOF) {
		rest = io.TeeReader(in, digest)
	}
	err = place(log, rest)
	if err == nil && hex.EncodeToString(digest.Sum(nil)) != v.Log {
		err = errors.Join(errRewritten, place(log, nil))
	}
	return &a, v.Place, err
}
