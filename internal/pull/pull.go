// Package pull tries a pull from a registry again when that may help, and says
// what to do when it does not. It must not know what pulls, or from where.
package pull

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	"github.com/evalrun/evalrun/internal/cause"
)

// Default is the policy of a run.
func Default() Policy {
	return Policy{Tries: 5, First: 2 * time.Second, Limited: 30 * time.Second, Wait: wait}
}

// Policy bounds the tries of a pull.
type Policy struct {
	Tries   int
	First   time.Duration // wait after the first failure, doubled each time
	Limited time.Duration // wait after the registry's first "too many requests", likewise
	Wait    func(context.Context, time.Duration) error
}

// Run pulls ref until it works, cannot work, or was tried often enough.
func (p Policy) Run(ctx context.Context, ref string, pull func() error) error {
	for try := 1; ; try++ {
		err := pull()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("pull %s: %w", ref, context.Cause(ctx))
		}
		if cause.Of(err) == cause.Engine {
			return fmt.Errorf("pull %s: %w", ref, err) // nothing was asked of a registry
		}
		what := classify(err)
		if what == final || try >= p.Tries {
			c := cause.Image
			if what != final {
				c = cause.Network
			}
			return fmt.Errorf("pull %s (try %d of %d): %w%s", ref, try, p.Tries, cause.As(c, err), advice(err))
		}
		pause := &p.First
		if what == limited {
			pause = &p.Limited
		}
		// Workers that failed together must not come back together.
		if err := p.Wait(ctx, *pause+rand.N(*pause/4+1)); err != nil {
			return fmt.Errorf("pull %s: %w", ref, err)
		}
		*pause *= 2
	}
}

type kind int

const (
	final kind = iota
	again
	limited
)

// status429 finds the status 429 in a registry's words, and not in a digest.
var status429 = regexp.MustCompile(`(^|[^0-9a-z:@])429($|[^0-9a-z])`)

func classify(err error) kind {
	text := strings.ToLower(err.Error())
	if strings.Contains(text, "toomanyrequests") || strings.Contains(text, "too many requests") || strings.Contains(text, "rate limit") || status429.MatchString(text) {
		return limited
	}
	for _, s := range []string{"not found", "manifest unknown", "name unknown", "denied", "unauthorized", "invalid reference", "no matching manifest", "no basic auth", "unsupported"} {
		if strings.Contains(text, s) {
			return final
		}
	}
	return again
}

func advice(err error) string {
	text := strings.ToLower(err.Error())
	switch {
	case strings.Contains(text, "no such host"), strings.Contains(text, "dial tcp"):
		return "; the registry cannot be reached: build the image here instead (--images build with --repo-mirror), or give a mirror with --namespace"
	case classify(err) == limited:
		return "; the registry limits pulls: log in with `docker login`, or use a mirror with --namespace"
	case strings.Contains(text, "denied"), strings.Contains(text, "unauthorized"), strings.Contains(text, "no basic auth"):
		return "; log in with `docker login` if the image is private"
	}
	return ""
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
