package docker

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// A label cannot be changed once a container is made, so that its expiry is as good as
// the guess it was made with. A lease says what the label cannot: that the owner lives.
// It is a file whose name begins with the owner's, locked as long as its process is
// there, and touched now and then for those who see the file and not the lock. Whoever
// shares the folder sees it, also from another process namespace.
const (
	leaseRenewed = time.Minute
	leaseLasts   = 5 * leaseRenewed
	// A machine that slept, or whose clock is another, looks as if its process were gone.
	leaseForgotten = 7 * 24 * time.Hour
	leaseSuffix    = ".lease"
)

// leases is the folder of them; "" is none.
type leases string

// lease is one of them. Clients of one process have their own each, so that none gives
// back another's.
type lease struct{ file *flock.Flock }

// take takes a lease for this process, and renews it until it is given back.
func (d leases) take(o owner) (giveBack func(), err error) {
	d.tidy(time.Now())
	l := lease{flock.New(filepath.Join(string(d), o.String()+"."+rand.Text()+leaseSuffix))}
	if err := l.take(); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	var renewing sync.WaitGroup
	renewing.Go(func() {
		tick := time.NewTicker(leaseRenewed)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				l.renew(now) // what fails now may not the next time
			case <-done:
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		renewing.Wait()
		os.Remove(l.file.Path())
		l.file.Close()
	}), nil
}

func (l lease) take() error {
	if err := os.MkdirAll(filepath.Dir(l.file.Path()), 0o755); err != nil {
		return err
	}
	// Who looks whether it is locked may have it for a moment: then the next renewal locks
	// it.
	_, err := l.file.TryLock()
	return err
}

// renew makes a lease fresh, and takes it again where somebody has removed it.
func (l lease) renew(now time.Time) error {
	err := os.Chtimes(l.file.Path(), now, now)
	if err == nil && l.file.Locked() || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return errors.Join(l.file.Close(), l.take())
}

// of are the leases there are; an owner's if it is not "".
func (d leases) of(owner string) []os.DirEntry {
	entries, _ := os.ReadDir(string(d)) // a folder that is not there has none
	return slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		return !strings.HasSuffix(e.Name(), leaseSuffix) || owner != "" && !strings.HasPrefix(e.Name(), owner+".")
	})
}

// held reports whether the owner of a label lives, as far as its leases say.
func (d leases) held(owner string) bool {
	if d == "" || owner == "" {
		return false
	}
	return slices.ContainsFunc(d.of(owner), func(e os.DirEntry) bool {
		info, err := e.Info()
		return err == nil && (time.Since(info.ModTime()).Abs() < leaseLasts || locked(filepath.Join(string(d), e.Name())))
	})
}

// locked reports whether a process has the lock of a file.
func locked(path string) bool {
	l := flock.New(path, flock.SetFlag(os.O_RDONLY))
	defer l.Close()
	got, err := l.TryRLock()
	return err == nil && !got
}

// tidy removes the leases of processes that are known to be gone, and of those of which
// nothing was heard for so long that no sleep or clock is the reason.
func (d leases) tidy(now time.Time) {
	for _, e := range d.of("") {
		path := filepath.Join(string(d), e.Name())
		info, err := e.Info()
		if err == nil && (now.Sub(info.ModTime()) > leaseForgotten || ownerOfLease(e.Name()).life() == dead) && !locked(path) {
			os.Remove(path)
		}
	}
}

// ownerOfLease is whose a lease is, by the name of its file; of none that lives here where
// that names nobody.
func ownerOfLease(file string) owner {
	name := strings.TrimSuffix(file, leaseSuffix)
	o, _ := parseOwner(strings.TrimSuffix(name, filepath.Ext(name)))
	return o
}

// Lease keeps what this process makes from being swept by others as long as it lives,
// whatever labels say. dir is a folder that those who use the daemon share.
func (c *Client) Lease(dir string) error {
	c.leases = leases(dir)
	giveBack, err := c.leases.take(c.owner)
	if err == nil {
		c.giveBack = giveBack
	}
	return err
}
