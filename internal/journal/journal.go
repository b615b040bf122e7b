package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Journal is a file of events that is being written. Its methods are safe for
// concurrent use.
type Journal struct {
	f    *os.File
	path string

	mu      sync.Mutex
	turn    sync.Cond // broadcast when a commit has ended
	waiting []byte    // lines nobody has written yet
	seq     uint64    // of the last line
	durable uint64    // of the last line that is on disk
	writing bool
	end     int64 // where the next line goes
	size    int64 // of the file, as far as it is durable
	err     error // of the first commit that failed; the journal takes no more
	closed  bool
}

// ErrClosed is the error of a journal that was closed.
var ErrClosed = errors.New("the journal is closed")

// Open opens the journal of this path, or makes one, gives the events in it to f,
// and cuts off what a crash has left of the last one.
func Open(path string, f func(Event) error) (*Journal, Scan, error) {
	file, err := openRegular(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, Scan{}, fmt.Errorf("journal: %w", err)
	}
	j := &Journal{f: file, path: path}
	j.turn.L = &j.mu
	scan, err := j.recover(f)
	if err != nil {
		return nil, scan, errors.Join(fmt.Errorf("journal %s: %w", path, err), file.Close())
	}
	return j, scan, nil
}

// OpenFile opens a journal for Read. What is no regular file is refused: a pipe would be
// waited for, for ever.
func OpenFile(path string) (*os.File, error) { return openRegular(path, os.O_RDONLY) }

func openRegular(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|syscall.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (j *Journal) recover(f func(Event) error) (Scan, error) {
	scan, err := Read(j.f, f)
	if err != nil {
		return scan, err
	}
	if scan.Torn > 0 {
		if err := j.f.Truncate(scan.End); err != nil {
			return scan, err
		}
	}
	if _, err := j.f.Seek(scan.End, io.SeekStart); err != nil {
		return scan, err
	}
	// What was read may be in memory only: the process that wrote it was killed
	// before it synced.
	if err := j.f.Sync(); err != nil {
		return scan, err
	}
	j.seq, j.durable, j.size, j.end = scan.Last, scan.Last, scan.End, scan.End
	return scan, syncDir(filepath.Dir(j.path))
}

// syncDir makes the name of a new file last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems cannot sync a folder.
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// Append adds an event and returns when it is on disk. Those who append meanwhile
// share one sync.
func (j *Journal) Append(kind string, data any) (Place, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	place, err := j.add(kind, data)
	if err != nil {
		return place, err
	}
	return place, j.commit(j.seq)
}

// Note adds an event that is on disk when one that was appended later is. It is
// for what need not be known after a crash.
func (j *Journal) Note(kind string, data any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, err := j.add(kind, data)
	return err
}

func (j *Journal) add(kind string, data any) (Place, error) {
	switch {
	case j.err != nil:
		return Place{}, j.err
	case j.closed:
		return Place{}, ErrClosed
	}
	raw, err := encodeData(data)
	if err != nil {
		return Place{}, fmt.Errorf("journal %s: %w", j.path, err)
	}
	line, err := encode(Event{Seq: j.seq + 1, At: time.Now().UTC().Truncate(time.Millisecond), Kind: kind, Data: raw})
	if err != nil {
		return Place{}, fmt.Errorf("journal %s: %w", j.path, err)
	}
	place := Place{j.end, len(line)}
	j.seq++
	j.end += int64(len(line))
	j.waiting = append(j.waiting, line...)
	return place, nil
}

func encodeData(data any) (json.RawMessage, error) {
	if data == nil {
		return nil, nil
	}
	return json.Marshal(data)
}

// commit returns when all up to seq is on disk. Whoever finds nobody writing
// writes for all.
func (j *Journal) commit(seq uint64) error {
	for j.durable < seq && j.err == nil {
		if j.writing {
			j.turn.Wait()
			continue
		}
		lines, last := j.waiting, j.seq
		j.waiting, j.writing = nil, true
		j.mu.Unlock()
		err := j.write(lines)
		j.mu.Lock()
		j.writing = false
		if err == nil {
			j.durable = last
			j.size += int64(len(lines))
		} else {
			j.err = fmt.Errorf("journal %s: %w", j.path, err)
			// As good as can be: the next Open would cut it off, too.
			j.f.Truncate(j.size)
		}
		j.turn.Broadcast()
	}
	return j.err
}

func (j *Journal) write(lines []byte) error {
	if _, err := j.f.Write(lines); err != nil {
		return err
	}
	return j.f.Sync()
}

// ReadAt reads again an event that Open gave or Append wrote.
func (j *Journal) ReadAt(p Place) (Event, error) {
	line := make([]byte, p.Size)
	if _, err := j.f.ReadAt(line, p.Offset); err != nil {
		return Event{}, fmt.Errorf("journal %s: %w", j.path, err)
	}
	ev, reason := parse(line)
	if reason != "" {
		return Event{}, fmt.Errorf("journal %s: byte %d: %s", j.path, p.Offset, reason)
	}
	ev.Place = p
	return ev, nil
}

// Close puts what was noted on disk.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	j.closed = true
	err := j.err
	if err == nil {
		err = j.commit(j.seq)
	}
	return errors.Join(err, j.f.Close())
}
