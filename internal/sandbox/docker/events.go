package docker

import (
	"context"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

// oomEvents counts the kernel's out-of-memory kills in our containers. The
// daemon's event stream is the one place that knows of those that hit a process
// other than the container's first, and that the tests cannot write to.
type oomEvents struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	kills map[string]int
}

func watchOOM(api *client.Client, owner string) *oomEvents {
	ctx, cancel := context.WithCancel(context.Background())
	e := &oomEvents{cancel: cancel, done: make(chan struct{}), kills: map[string]int{}}
	go e.run(ctx, api, owner)
	return e
}

func (e *oomEvents) run(ctx context.Context, api *client.Client, owner string) {
	defer close(e.done)
	args := filters.NewArgs(filters.Arg("type", "container"), filters.Arg("event", "oom"), filters.Arg("label", labelOwner+"="+owner))
	for ctx.Err() == nil {
		messages, errs := api.Events(ctx, events.ListOptions{Filters: args})
		for open := true; open; {
			select {
			case m := <-messages:
				e.mu.Lock()
				e.kills[m.Actor.ID]++
				e.mu.Unlock()
			case <-errs:
				open = false
			case <-ctx.Done():
				return
			}
		}
		// The daemon went away: it may come back.
		if wait(ctx, time.Second) != nil {
			return
		}
	}
}

func (e *oomEvents) count(id string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.kills[id]
}

func (e *oomEvents) forget(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.kills, id)
}

func (e *oomEvents) stop() {
	e.cancel()
	<-e.done
}
