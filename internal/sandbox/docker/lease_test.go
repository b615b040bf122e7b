package docker

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/gofrs/flock"
)

// touched sets when a lease was renewed last.
func touched(t *testing.T, path string, at time.Time) {
	t.Helper()
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// only is the one lease an owner has.
func (d leases) only(t *testing.T, owner string) string {
	t.Helper()
	all := d.of(owner)
	if len(all) != 1 {
		t.Fatalf("%s has the leases %v, want one", owner, all)
	}
	return filepath.Join(string(d), all[0].Name())
}

// TestLease: a lease is held as long as its process has it, however old its time is,
// and as long as its time is fresh; then it is gone, and tidied away once it is so old
// that no clock or sleep is the reason.
func TestLease(t *testing.T) {
	dir := leases(filepath.Join(t.TempDir(), "leases"))
	me, long, ages := thisProcess().String(), time.Now().Add(-time.Hour), time.Now().Add(-30*24*time.Hour)
	if dir.held(me) {
		t.Error("a lease that nobody has taken is held")
	}
	giveBack, err := dir.take(thisProcess())
	if err != nil {
		t.Fatal(err)
	}
	touched(t, dir.only(t, me), ages)
	if dir.tidy(time.Now()); !dir.held(me) {
		t.Error("the lease of a process that has it is not held")
	}
	giveBack()
	if dir.held(me) {
		t.Error("a lease that was given back is held")
	}

	killed := owner{host: "elsewhere", pid: 1, start: "1"}.String()
	path := filepath.Join(string(dir), killed+".A.lease")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if !dir.held(killed) {
		t.Error("a lease that was just renewed, on another machine, is not held")
	}
	if longer := killed + "2"; dir.held(longer) || dir.held(killed[:len(killed)-1]) {
		t.Error("a lease is held for an owner with a similar name")
	}
	touched(t, path, long)
	if dir.held(killed) {
		t.Error("the lease of a process that was killed is held")
	}
	if dir.tidy(time.Now()); dir.only(t, killed) != path {
		t.Error("a lease is gone that may only be late")
	}
	touched(t, path, ages)
	// Of one that ran here it is known that it is gone, however fresh its lease.
	ended := filepath.Join(string(dir), endedOwner(t).String()+".A.lease")
	if err := os.WriteFile(ended, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dir.tidy(time.Now())
	if left, err := os.ReadDir(string(dir)); err != nil || len(left) > 0 {
		t.Errorf("left are %v (%v)", left, err)
	}
	for _, bad := range []string{"", "../x", "a/b"} {
		if dir.held(bad) {
			t.Errorf("%q is held", bad)
		}
	}
}

// TestLeaseIsRenewed: by itself, as long as it is not given back, and taken again where it
// was removed.
func TestLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, me := leases(filepath.Join(t.TempDir(), "leases")), thisProcess()
		giveBack, err := dir.take(me)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			touched(t, dir.only(t, me.String()), time.Now().Add(-time.Hour))
			time.Sleep(leaseRenewed + time.Second)
			info, err := os.Stat(dir.only(t, me.String()))
			if err != nil {
				t.Fatal(err)
			}
			if age := time.Since(info.ModTime()); age > leaseRenewed {
				t.Errorf("the lease was renewed %s ago, want every %s", age, leaseRenewed)
			}
		}
		if err := os.RemoveAll(string(dir)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(leaseRenewed + time.Second)
		if path := dir.only(t, me.String()); !locked(path) {
			t.Error("a lease that was removed is taken again without its lock")
		}
		giveBack()
		time.Sleep(2 * leaseRenewed)
		if left := dir.of(""); len(left) > 0 {
			t.Errorf("%v is renewed after it was given back", left)
		}
	})
}

// TestLeaseOfClients: whichever client of a process ends first, the process still has a
// lease.
func TestLeaseOfClients(t *testing.T) {
	for _, first := range []int{0, 1} {
		dir, me := leases(t.TempDir()), thisProcess()
		var giveBack [2]func()
		for i := range giveBack {
			var err error
			if giveBack[i], err = dir.take(me); err != nil {
				t.Fatal(err)
			}
		}
		giveBack[first]()
		touched(t, dir.only(t, me.String()), time.Now().Add(-time.Hour))
		if !dir.held(me.String()) {
			t.Errorf("client %d has given back the lease of the other", first)
		}
		giveBack[1-first]()
		if dir.held(me.String()) {
			t.Error("a lease is left of two that were given back")
		}
	}
}

// TestLeaseRemoved: a lease that somebody took for that of a process that is gone is
// taken again, with its lock.
func TestLeaseRemoved(t *testing.T) {
	dir := leases(filepath.Join(t.TempDir(), "leases"))
	l := lease{flock.New(filepath.Join(string(dir), "me.lease"))}
	if err := l.take(); err != nil {
		t.Fatal(err)
	}
	defer l.file.Close()
	for what, remove := range map[string]func() error{
		"nothing":    func() error { return nil },
		"the lock":   l.file.Unlock,
		"the lease":  func() error { return os.Remove(l.file.Path()) },
		"the folder": func() error { return os.RemoveAll(string(dir)) },
	} {
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		if err := l.renew(time.Now()); err != nil {
			t.Errorf("%s was removed: %v", what, err)
		}
		if !dir.held("me") || !locked(l.file.Path()) {
			t.Errorf("%s was removed, and is not there again", what)
		}
	}
}

// TestLeaseKeeps: what a label says is over stays while there is a lease.
func TestLeaseKeeps(t *testing.T) {
	c := &Client{owner: thisProcess(), leases: leases(t.TempDir())}
	foreign := owner{host: "elsewhere-1", pid: 1, start: "1"}
	expired := container.Summary{State: container.StateExited, Labels: map[string]string{labelOwner: foreign.String(), labelExpiry: "1"}}
	if !c.leftBehind(expired, time.Now()) {
		t.Error("what has expired, and has no lease, stays")
	}
	l := flock.New(filepath.Join(string(c.leases), foreign.String()+".A.lease")) // as its process holds it
	if got, err := l.TryLock(); err != nil || !got {
		t.Fatal(got, err)
	}
	touched(t, l.Path(), time.Now().Add(-24*time.Hour))
	if c.leftBehind(expired, time.Now()) {
		t.Error("what is leased goes")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if !c.leftBehind(expired, time.Now()) {
		t.Error("what was leased by a process that is gone stays")
	}
}
