// Package room keeps a run within the disk it may use. Below a floor of free space
// or inodes, or above a budget, new work waits: images that the run has no more use
// for go, and what attempts have written goes by itself when they end.
//
// It must not know what the work is, nor which engine keeps the images.
package room

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNone is of a disk that stays full although nothing is at work: waiting would
// not help.
var ErrNone = errors.New("the disk is full, and nothing is left that could go")

// Disk is what is left of one.
type Disk struct{ Free, Inodes int64 }

// Options say what is watched.
type Options struct {
	// Engine is a folder on the disk where the engine keeps images, Results where results
	// are written; "" is one that is not watched, such as that of another machine.
	Engine, Results string
	Floor           int64 // bytes that must be free
	Inodes          int64 // inodes that must be free, on file systems that count them
	Budget          int64 // bytes the run may take of the engine's disk; 0 is no bound
	// Remove removes an image; true is one that is gone, whoever removed it, false one
	// that cannot go now.
	Remove func(ctx context.Context, image string) (bool, error)
	// Find gives the image that work on a key will need, if it is there already; nil
	// finds none.
	Find func(ctx context.Context, key string) (image string, ok bool)
	Say  func(text string)
	// Stat and Every are the machine's and a few seconds unless tests say otherwise.
	Stat  func(folder string) (Disk, error)
	Every time.Duration
}

// Keeper lets work begin while there is room.
type Keeper struct {
	o     Options
	start int64 // free on the engine's disk when the run began

	mu     sync.Mutex
	images map[string]string // key of work -> image it has
	left   map[string]int    // key of work -> how often it is still needed
	order  map[string]int    // key of work -> when it is needed
	active map[string]int    // key of work -> how many pieces of it have room
	told   bool
	going  map[string]chan struct{} // keys whose image is being removed; closed when it is over
	stays  map[string]refusal       // keys whose image could not go, or was not found
}

// refusal is that an image did not go.
type refusal struct {
	times int
	last  time.Time
}

// patience is how many times in a row nothing may be at work before waiting is given
// up.
const patience = 15

// mostRefusals is how often an image may refuse to go before it is left alone: one whose
// sandbox is being destroyed goes in a moment, one that is somebody else's never.
const mostRefusals = 15

// New returns the Keeper of a run whose work needs images in this order; a key may
// be named several times.
func New(o Options, order iter.Seq[string]) (*Keeper, error) {
	if o.Stat == nil {
		o.Stat = stat
	}
	if o.Every == 0 {
		o.Every = 2 * time.Second
	}
	k := &Keeper{o: o, images: map[string]string{}, left: map[string]int{}, order: map[string]int{}, active: map[string]int{}, going: map[string]chan struct{}{}, stays: map[string]refusal{}}
	i := 0
	for key := range order {
		k.left[key]++
		k.order[key] = i
		i++
	}
	if o.Engine == "" {
		return k, nil
	}
	d, err := o.Stat(o.Engine)
	k.start = d.Free
	return k, err
}

// Order says in which order work needs its images, where that is known later.
func (k *Keeper) Order(order []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, key := range order {
		k.order[key] = i
	}
}

func stat(folder string) (Disk, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return Disk{}, fmt.Errorf("how much room there is in %s: %w", folder, err)
	}
	d := Disk{Free: int64(fs.Bavail) * fs.Bsize, Inodes: int64(fs.Ffree)}
	if fs.Blocks == 0 {
		d.Free = math.MaxInt64 // not counted either
	}
	if fs.Files == 0 {
		d.Inodes = -1 // they are not counted
	}
	return d, nil
}

// Enter waits until there is room for work on a key. It is for whoever is about to
// take more of the disk.
func (k *Keeper) Enter(ctx context.Context, key string) error {
	for idle := 0; ; {
		lack, err := k.lack()
		if err != nil {
			return err
		}
		k.mu.Lock()
		going := k.going[key]
		if lack == "" && going == nil {
			k.active[key]++
			k.told = false
			k.mu.Unlock()
			return nil
		}
		if going != nil {
			k.mu.Unlock()
			select {
			case <-going:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if idle++; len(k.active) > 0 {
			idle = 0
		}
		told := k.told
		k.told = true
		k.mu.Unlock()
		if !told {
			meanwhile := ": new work waits"
			if k.o.Remove != nil {
				meanwhile += ", and images that are done with go"
			}
			k.o.Say(lack + meanwhile)
		}
		removed, err := k.evict(ctx, key)
		switch {
		case err != nil:
			return err
		case removed:
			continue
		case idle >= patience:
			return fmt.Errorf("%s: %w: make room (`evalrun cache prune`, `evalrun clean --images`) and give the same command again", lack, ErrNone)
		}
		timer := time.NewTimer(k.o.Every)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// lack says what there is too little of, or "".
func (k *Keeper) lack() (string, error) {
	for _, disk := range []struct {
		folder, where string
		budget        int64
	}{
		{k.o.Engine, "where the engine keeps images", k.o.Budget},
		{k.o.Results, "where results are written", 0},
	} {
		if disk.folder == "" {
			continue
		}
		d, err := k.o.Stat(disk.folder)
		if err != nil {
			return "", err
		}
		switch {
		case d.Free < k.o.Floor:
			return fmt.Sprintf("%d MiB are free %s, less than the floor of %d MiB", d.Free>>20, disk.where, k.o.Floor>>20), nil
		case d.Inodes >= 0 && d.Inodes < k.o.Inodes:
			return fmt.Sprintf("%d inodes are free %s, less than %d", d.Inodes, disk.where, k.o.Inodes), nil
		case disk.budget > 0 && k.start-d.Free > disk.budget:
			return fmt.Sprintf("the run has taken %d MiB of disk, more than its budget of %d MiB", (k.start-d.Free)>>20, disk.budget>>20), nil
		}
	}
	return "", nil
}

// Has is told which image the work on a key has, or "" where it got none.
func (k *Keeper) Has(key, image string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if image != "" {
		k.images[key] = image
		delete(k.stays, key)
	}
}

// Join is told of work on a key that will not ask for room, since the image of another
// piece is all it needs. It is told while that one is at work, so that the image stays.
func (k *Keeper) Join(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active[key]++
}

// Done is told that a piece of work on a key is over; hadRoom says that it has entered,
// or joined.
func (k *Keeper) Done(key string, hadRoom bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left[key]--
	if hadRoom {
		k.leave(key)
	}
}

// Leave is told that work which has entered came to nothing yet: it will enter again, or
// be done without.
func (k *Keeper) Leave(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leave(key)
}

func (k *Keeper) leave(key string) {
	if k.active[key]--; k.active[key] <= 0 {
		delete(k.active, key)
	}
}

// evict removes one image, for work on a key: of those the run has no more use for the
// one that was needed first. Where there is none, and nothing is at work whose end could
// make room, it is the one whose next use is farthest away.
func (k *Keeper) evict(ctx context.Context, forKey string) (bool, error) {
	if k.o.Remove == nil {
		return false, nil
	}
	done, later := k.candidates(forKey)
	for _, key := range append(done, later...) {
		image, finish, ok := k.take(key)
		if !ok {
			continue // things have changed since
		}
		if image == "" && k.o.Find != nil {
			if found, ok := k.o.Find(ctx, key); ok {
				image = found
			}
		}
		if image == "" {
			finish(false)
			continue
		}
		removed, err := k.o.Remove(ctx, image)
		finish(removed)
		if err != nil {
			return false, fmt.Errorf("make room: remove the image of %s: %w", key, err)
		}
		if removed {
			return true, nil
		}
	}
	return false, nil
}

// take gives the image of a key to one who will remove it, "" where it is not known yet,
// if it still may go: work on the key waits until finish is told what became of it.
func (k *Keeper) take(key string) (image string, finish func(removed bool), ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.isDone(key) && !k.isLater(key) {
		return "", nil, false
	}
	if image = k.images[key]; k.inUse(image) {
		return "", nil, false
	}
	over := make(chan struct{})
	k.going[key] = over
	return image, func(removed bool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if removed {
			delete(k.images, key)
			delete(k.stays, key)
		} else {
			k.stays[key] = refusal{k.stays[key].times + 1, time.Now()}
		}
		delete(k.going, key)
		close(over)
	}, true
}

// inUse reports whether work on some key is under way in an image: keys may share one.
func (k *Keeper) inUse(image string) bool {
	for key := range k.active {
		if image != "" && k.images[key] == image {
			return true
		}
	}
	return false
}

// isDone reports whether a key has an image that the run has no more use for, isLater
// whether it may have one that is needed later, and nothing is at work whose end could
// make room. They are called with the lock.
func (k *Keeper) isDone(key string) bool {
	_, has := k.images[key]
	return has && k.left[key] <= 0 && k.active[key] == 0 && k.mayGo(key)
}

func (k *Keeper) isLater(key string) bool {
	return len(k.active) == 0 && k.left[key] > 0 && k.mayGo(key)
}

// mayGo is false for an image that somebody is removing, or that has just refused to go,
// or too often.
func (k *Keeper) mayGo(key string) bool {
	if _, going := k.going[key]; going {
		return false
	}
	r := k.stays[key]
	return r.times == 0 || r.times < mostRefusals && time.Since(r.last) >= k.o.Every
}

// candidates are the keys whose images are done with, and, where nothing is at work,
// those whose images will be needed, in the order in which they go.
func (k *Keeper) candidates(forKey string) (done, later []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key := range k.images {
		if k.isDone(key) {
			done = append(done, key)
		}
	}
	for key := range k.left {
		if key != forKey && k.isLater(key) {
			later = append(later, key)
		}
	}
	slices.SortFunc(done, func(a, b string) int { return k.order[a] - k.order[b] })
	slices.SortFunc(later, func(a, b string) int { return k.order[b] - k.order[a] })
	return done, later
}
