package room

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// machine has a disk on which images and what attempts write take room.
type machine struct {
	mu      sync.Mutex
	free    int64
	inodes  int64
	images  map[string]int64
	removed []string
	said    []string
}

func (m *machine) stat(string) (Disk, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Disk{m.free, m.inodes}, nil
}

func (m *machine) remove(_ context.Context, image string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	size, ok := m.images[image]
	if ok {
		m.free += size
		delete(m.images, image)
		m.removed = append(m.removed, image)
	}
	return ok, nil
}

func (m *machine) take(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free -= n
}

func keeper(t *testing.T, m *machine, o Options, order ...string) *Keeper {
	t.Helper()
	o.Engine, o.Results, o.Stat, o.Remove, o.Every = "engine", "out", m.stat, m.remove, time.Second
	o.Say = func(text string) { m.said = append(m.said, text) }
	k, err := New(o, slices.Values(order))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// do does work on a key whose image takes so much.
func do(t *testing.T, m *machine, k *Keeper, key string, size int64) {
	t.Helper()
	if err := k.Enter(context.Background(), key); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	m.mu.Lock()
	m.images["image-of-"+key] = size
	m.free -= size
	m.mu.Unlock()
	k.Has(key, "image-of-"+key)
}

// Images that are done with make room, the ones needed first before the others, and
// no more of them than needed. One that is needed once more stays.
func TestEviction(t *testing.T) {
	for name, o := range map[string]Options{"floor": {Floor: 400}, "budget": {Budget: 600}} {
		m := &machine{free: 1000, inodes: -1, images: map[string]int64{}}
		k := keeper(t, m, o, "a", "a", "b", "c", "d", "e")
		do(t, m, k, "a", 300)
		k.Done("a", true)
		do(t, m, k, "b", 300)
		k.Done("b", true)
		do(t, m, k, "c", 300) // leaves too little
		k.Done("c", true)
		if err := k.Enter(context.Background(), "d"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := []string{"image-of-b"}; !slices.Equal(m.removed, want) {
			t.Errorf("%s: removed %v, want %v: a is needed once more", name, m.removed, want)
		}
		if len(m.said) != 1 {
			t.Errorf("%s: said %q", name, m.said)
		}
	}
}

// Where nothing can go, work waits for what is under way, and not for ever when
// there is none.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{free: 1000, inodes: 500, images: map[string]int64{}}
		k := keeper(t, m, Options{Floor: 400, Inodes: 100}, "a", "b")
		do(t, m, k, "a", 700)
		began := time.Now()
		go func() {
			time.Sleep(time.Hour)
			m.take(-700) // the attempt's own files are gone with it
			k.Done("a", true)
		}()
		if err := k.Enter(context.Background(), "b"); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < time.Hour || waited > time.Hour+2*time.Second {
			t.Errorf("waited %s", waited)
		}
		k.Done("b", true)
		m.inodes = 99
		m.images = map[string]int64{}
		err := k.Enter(context.Background(), "c")
		if !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "99 inodes") {
			t.Errorf("on a full disk with nothing to do: %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := k.Enter(ctx, "c"); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %v", err)
		}
	})
}

// Work that never had room, since it had no patch, is no reason to take others that had
// for done; work that joined counts until its own end.
func TestOnlyWhatHadRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{free: 1000, inodes: -1, images: map[string]int64{}}
		k := keeper(t, m, Options{Floor: 400}, "a", "a", "a", "b")
		do(t, m, k, "a", 700)
		k.Done("a", false)
		began := time.Now()
		go func() {
			time.Sleep(10 * time.Minute)
			k.Join("a")
			k.Done("a", true)
			time.Sleep(10 * time.Minute) // longer than nothing may be at work
			m.take(-700)
			k.Done("a", true)
		}()
		if err := k.Enter(context.Background(), "b"); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < 20*time.Minute {
			t.Errorf("waited %s", waited)
		}
	})
}

// Images that are needed later go when nothing else can make room, the one with the
// farthest use first, and never the one that is asked for.
func TestLeastFutureUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{free: 100, inodes: -1, images: map[string]int64{"image-of-b": 150, "image-of-c": 250, "image-of-d": 250}}
		k := keeper(t, m, Options{Floor: 400, Find: func(_ context.Context, key string) (string, bool) {
			m.mu.Lock()
			defer m.mu.Unlock()
			_, ok := m.images["image-of-"+key]
			return "image-of-" + key, ok
		}}, "a", "b", "c", "d", "e")
		k.Order([]string{"b", "a", "e", "d", "c"})
		if err := k.Enter(context.Background(), "a"); err != nil {
			t.Fatal(err)
		}
		if want := []string{"image-of-c", "image-of-d"}; !slices.Equal(m.removed, want) {
			t.Errorf("removed %v, want %v", m.removed, want)
		}
		m.take(400)
		go func() {
			time.Sleep(time.Minute)
			m.take(-300)
			k.Done("a", true)
		}()
		if err := k.Enter(context.Background(), "b"); err != nil {
			t.Fatal(err)
		}
		if len(m.removed) != 2 {
			t.Errorf("removed %v: what is at work was not waited for", m.removed)
		}
		k.Done("b", true)
		m.take(500)
		if err := k.Enter(context.Background(), "e"); !errors.Is(err, ErrNone) {
			t.Errorf("with nothing left: %v", err)
		}
	})
}

// An image that cannot go now, since its sandbox is still being destroyed, goes a little
// later; one that never can is not asked for ever.
func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name  string
			order []string
			left  int // how often a is still needed
		}{{"done with", []string{"a", "b"}, 0}, {"needed later", []string{"a", "a", "b"}, 1}} {
			m := &machine{free: 1000, inodes: -1, images: map[string]int64{}}
			k := keeper(t, m, Options{Floor: 400}, c.order...)
			do(t, m, k, "a", 700)
			k.Done("a", true)
			asked, busy := 0, time.Now().Add(5*time.Second)
			k.o.Remove = func(ctx context.Context, image string) (bool, error) {
				if asked++; time.Now().Before(busy) {
					return false, nil
				}
				return m.remove(ctx, image)
			}
			if err := k.Enter(context.Background(), "b"); err != nil || !slices.Equal(m.removed, []string{"image-of-a"}) {
				t.Errorf("%s: removed %v after %d times, %v", c.name, m.removed, asked, err)
			}

			asked, busy = 0, time.Now().Add(1000*time.Hour)
			k.Has("a", "image-of-a")
			m.take(700)
			go func() {
				time.Sleep(time.Hour) // b is at work
				k.Done("b", true)
			}()
			if err := k.Enter(context.Background(), "c"); !errors.Is(err, ErrNone) {
				t.Errorf("%s: an image that never goes: %v", c.name, err)
			}
			if asked == 0 || asked > mostRefusals {
				t.Errorf("%s: asked %d times for an image that never goes", c.name, asked)
			}
		}
	})
}

// Work does not begin in an image that is being removed, and none is removed in which
// work has begun since it was chosen.
func TestEvictionAndWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{free: 300, inodes: -1, images: map[string]int64{"image-of-c": 200, "image-of-d": 200}}
		k := keeper(t, m, Options{Floor: 400}, "a", "b", "c", "d")
		k.Has("c", "image-of-c")
		k.Has("d", "image-of-d")
		removing, entered := make(chan struct{}), time.Time{}
		k.o.Remove = func(ctx context.Context, image string) (bool, error) {
			close(removing) // and a second one would be a second panic
			m.take(-200)    // somebody else makes room meanwhile
			time.Sleep(time.Minute)
			return false, nil
		}
		began := time.Now()
		go func() {
			<-removing
			if err := k.Enter(context.Background(), "c"); err != nil {
				t.Error(err)
			}
			k.Has("c", "image-of-c")
		}()
		go func() {
			<-removing
			if err := k.Enter(context.Background(), "d"); err != nil {
				t.Error(err)
			}
			entered = time.Now()
		}()
		if err := k.Enter(context.Background(), "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if waited := entered.Sub(began); waited != time.Minute {
			t.Errorf("work began %s after its image was chosen, which took a minute to remove", waited)
		}
	})
}

// An image that two keys share stays while work on one of them is under way.
func TestSharedImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{free: 1000, inodes: -1, images: map[string]int64{}}
		k := keeper(t, m, Options{Floor: 400}, "a", "b", "c")
		do(t, m, k, "a", 100)
		do(t, m, k, "b", 600)
		k.Has("b", "image-of-a")
		k.Done("a", true)
		go func() {
			time.Sleep(time.Hour)
			m.take(-600)
			k.Done("b", true)
		}()
		if err := k.Enter(context.Background(), "c"); err != nil || len(m.removed) > 0 {
			t.Errorf("removed %v, %v", m.removed, err)
		}
	})
}

// Which disk is full is said of the disk it is, also where the engine's is not watched.
func TestWhichDisk(t *testing.T) {
	for _, c := range []struct{ engine, full, want string }{
		{"engine", "engine", "where the engine keeps images"},
		{"engine", "out", "where results are written"},
		{"", "out", "where results are written"},
	} {
		for _, left := range []Disk{{Free: 1, Inodes: -1}, {Free: 1000, Inodes: 1}} {
			said := ""
			o := Options{Engine: c.engine, Results: "out", Floor: 400, Inodes: 100, Every: time.Microsecond, Say: func(text string) { said += text }}
			o.Stat = func(folder string) (Disk, error) {
				if folder == "" {
					return Disk{}, errors.New("a disk that is not watched was looked at")
				}
				if folder == c.full {
					return left, nil
				}
				return Disk{Free: 1000, Inodes: 1000}, nil
			}
			k, err := New(o, slices.Values([]string{"a"}))
			if err != nil {
				t.Fatal(err)
			}
			if err := k.Enter(t.Context(), "a"); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, left %+v: %v", c, left, err)
			}
			if !strings.Contains(said, c.want) || strings.Contains(said, "images that are done with") { // none can be removed
				t.Errorf("%+v, left %+v: said %q", c, left, said)
			}
		}
	}
}

// An image that is not there is not removed, whatever it would be called: that it is
// gone would pass for room that was made, and be tried for ever.
func TestNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{free: 100, inodes: -1, images: map[string]int64{}}
		k := keeper(t, m, Options{Floor: 400, Find: func(_ context.Context, key string) (string, bool) { return "image-of-" + key, false }}, "a", "b")
		k.o.Remove = func(_ context.Context, image string) (bool, error) {
			t.Errorf("%s was removed", image)
			return false, nil
		}
		if err := k.Enter(t.Context(), "a"); !errors.Is(err, ErrNone) {
			t.Error(err)
		}
	})
}

// Without a floor or a budget nothing is asked of the disk, whatever is left.
func TestNoLimits(t *testing.T) {
	m := &machine{inodes: 0, images: map[string]int64{}}
	k := keeper(t, m, Options{}, "a")
	if err := k.Enter(context.Background(), "a"); err != nil || len(m.said) > 0 {
		t.Errorf("%v, %q", err, m.said)
	}
	if d, err := stat(t.TempDir()); err != nil || d.Free <= 0 {
		t.Errorf("this machine's disk: %+v, %v", d, err)
	}
}
