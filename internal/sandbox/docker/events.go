package docker

import (
	"context"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

// eventDelay bounds how long an event may lag behind the answer to a request.
const eventDelay = 500 * time.Millisecond

// watcher follows the daemon's events about our containers: the kernel's
// out-of-memory kills, and the ends of commands.
//
// The event stream is the one place that knows of kills that hit a process
// other than the container's first, and that the tests cannot write to. The ends
// of commands are in it to know how far it has come: what happened while a
// command ran is told before the command's end.
type watcher struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	boxes map[string]*boxEvents // by container id
}

type boxEvents struct {
	kills int
	ended map[string]chan struct{} // by exec id; closed at its end
}

func watch(api *client.Client, o owner) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{cancel: cancel, done: make(chan struct{}), boxes: map[string]*boxEvents{}}
	go w.run(ctx, api, o)
	return w
}

func (w *watcher) run(ctx context.Context, api *client.Client, o owner) {
	defer close(w.done)
	args := filters.NewArgs(
		filters.Arg("type", "container"), filters.Arg("event", "oom"), filters.Arg("event", "exec_die"),
		filters.Arg("label", labelOwner+"="+o.String()))
	since := time.Now().UTC().Format(time.RFC3339Nano)
	for ctx.Err() == nil {
		messages, errs := api.Events(ctx, events.ListOptions{Filters: args, Since: since})
		for open := true; open; {
			select {
			case m := <-messages:
				w.take(m)
				since = time.Unix(0, m.TimeNano+1).UTC().Format(time.RFC3339Nano)
			case <-errs:
				open = false
			case <-ctx.Done():
				return
			}
		}
		// The daemon went away: it may come back, and then tells what we missed.
		if wait(ctx, time.Second) != nil {
			return
		}
	}
}

func (w *watcher) take(m events.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, ok := w.boxes[m.Actor.ID]
	if !ok {
		return
	}
	if m.Action == events.ActionOOM {
		b.kills++
		return
	}
	if end, ok := b.ended[m.Actor.Attributes["execID"]]; ok {
		delete(b.ended, m.Actor.Attributes["execID"])
		close(end)
	}
}

func (w *watcher) add(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boxes[id] = &boxEvents{ended: map[string]chan struct{}{}}
}

// expect returns a channel that is closed when the end of a command has been
// told; nil for a container that is not watched.
func (w *watcher) expect(id, exec string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, ok := w.boxes[id]
	if !ok {
		return nil
	}
	end := make(chan struct{})
	b.ended[exec] = end
	return end
}

func (w *watcher) kills(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b, ok := w.boxes[id]; ok {
		return b.kills
	}
	return 0
}

func (w *watcher) forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.boxes, id)
}

func (w *watcher) stop() {
	w.cancel()
	<-w.done
}
