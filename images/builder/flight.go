package builder

import (
	"context"

	"github.com/evalrun/evalrun/internal/cause"
)

type flight struct {
	done        chan struct{}
	image       Image
	err         error
	interrupted bool
}

// once runs f for a key a single time; everyone who asks gets its result, a
// failure included: a broken environment must not be built once per instance.
// Two kinds are no verdict on the layer: a build that was interrupted is started anew
// by whoever waited for it and was not, and one that failed of what passes by the next
// that asks. An engine that is gone is waited for elsewhere; other trouble is borne a
// few times, since what looks like it may be the layer's own.
func (b *Builder) once(ctx context.Context, key string, f func() (Image, error)) (Image, error) {
	for {
		b.mu.Lock()
		fl, ok := b.flights[key]
		if !ok {
			fl = &flight{done: make(chan struct{})}
			b.flights[key] = fl
		}
		b.mu.Unlock()
		if !ok {
			fl.image, fl.err = f()
			fl.interrupted = fl.err != nil && ctx.Err() != nil
			b.mu.Lock()
			if fl.interrupted || b.passes(key, fl.err) {
				delete(b.flights, key)
			}
			b.mu.Unlock()
			close(fl.done)
			return fl.image, fl.err
		}
		select {
		case <-fl.done:
			if !fl.interrupted {
				return fl.image, fl.err
			}
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return Image{}, context.Cause(ctx)
		}
	}
}

// Forget is told of an image that was removed from the engine: the next that asks for it
// has it built again.
func (b *Builder) Forget(digest string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, fl := range b.flights {
		select {
		case <-fl.done:
			if fl.image.Digest == digest {
				delete(b.flights, key)
			}
		default: // it is being built
		}
	}
}

func (b *Builder) passes(key string, err error) bool {
	c := cause.Of(err)
	if c == cause.Engine || !c.Passes() {
		return c == cause.Engine
	}
	b.failed[key]++
	return b.failed[key] < mostPassing
}
