package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/upkeep"
	"github.com/evalrun/evalrun/reports"
)

type cacheCmd struct {
	Du    cacheDuCmd    `cmd:"" help:"Show what is kept to save time: images, and the folders of the cache."`
	Prune cachePruneCmd `cmd:"" help:"Remove what was not used for a time, or for longest."`
}

type cacheDuCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
	All  bool `help:"List every entry, not the sums."`
	engineFlags
}

func (cacheDuCmd) Help() string {
	return `A line for each kind: pulled, base, env and instance are images in the stores of engines,
those that evalrun has pulled and the layers of those that it has built, with what each
takes of its own; the others are folders of the cache. An image that was there before a
run wanted it is not evalrun's, and not shown. Of an image that no run is known to have
used, the day it was made stands for the last use.

Examples:
  evalrun cache du
  evalrun cache du --engine docker --all
  evalrun cache du --json
`
}

// Run shows what is kept.
func (c *cacheDuCmd) Run(e *env) error {
	return c.eachStore(e, func(list []upkeep.Entry) error {
		switch {
		case c.JSON && c.All:
			return writeJSON(e.stdout, list)
		case c.JSON:
			return writeJSON(e.stdout, upkeep.Totals(list))
		case c.All:
			for _, entry := range list {
				fmt.Fprintf(e.stdout, "%-9s %-12s %10s  %s  %s\n", entry.Where, entry.Kind, size(entry.Bytes), day(entry.Used), reports.SafeText(entry.Name))
			}
			return nil
		}
		fmt.Fprintf(e.stdout, "%-9s %-12s %8s %10s  %s\n", "where", "kind", "entries", "size", "last used")
		sum := int64(0)
		for _, t := range upkeep.Totals(list) {
			sum += t.Bytes
			fmt.Fprintf(e.stdout, "%-9s %-12s %8d %10s  %s to %s\n", t.Where, t.Kind, t.Entries, size(t.Bytes), day(t.Oldest), day(t.Newest))
		}
		fmt.Fprintf(e.stdout, "%-9s %-12s %8d %10s\n", "", "all", len(list), size(sum))
		return nil
	})
}

type cachePruneCmd struct {
	Kind      []string `placeholder:"KIND" help:"Only these kinds, as du shows them; may be repeated."`
	OlderThan age      `placeholder:"AGE" help:"Remove what was not used for so long: 36h, 30d."`
	MaxSize   string   `placeholder:"SIZE" help:"Remove what was not used for longest until the rest of the kinds together is no larger. 0 removes all."`
	engineFlags
}

func (cachePruneCmd) Help() string {
	return `What a run that goes on has taken stays, what sandboxes run in, and layers that others
stand on. Nothing of it is a result: what is needed again is built, pulled or run again.
Not while a run builds images.

Examples:
  evalrun cache prune --older-than 30d
  evalrun cache prune --kind instance --max-size 50GiB
  evalrun cache prune --kind verdicts --max-size 0
`
}

// Run trims what is kept.
func (c *cachePruneCmd) Run(e *env) error {
	rule := upkeep.Rule{Kinds: c.Kind, Age: time.Duration(c.OlderThan), Most: -1}
	for _, kind := range c.Kind {
		if !slices.Contains(upkeep.Kinds(), kind) {
			return fmt.Errorf("--kind %s: want one of %s", kind, strings.Join(upkeep.Kinds(), ", "))
		}
	}
	switch {
	case c.MaxSize == "" && c.OlderThan <= 0:
		return errors.New("give --older-than, --max-size, or both")
	case c.MaxSize == "0":
		rule.Most = 0
	case c.MaxSize != "":
		var err error
		if rule.Most, err = parseSize(c.MaxSize); err != nil {
			return fmt.Errorf("--max-size: %w", err)
		}
	}
	return c.eachStore(e, func(list []upkeep.Entry) error {
		removed, err := rule.Trim(e.ctx, list, time.Now())
		for _, t := range upkeep.Totals(removed) {
			fmt.Fprintf(e.stdout, "%s: removed %d of %s, %s\n", t.Where, t.Entries, t.Kind, size(t.Bytes))
		}
		if len(removed) == 0 && err == nil {
			fmt.Fprintln(e.stdout, "nothing to remove")
		}
		if err != nil {
			return &exitError{exitNotEvaluated, err}
		}
		return nil
	})
}

// eachStore lists what all engines here and the cache keep, while the engines are
// open.
func (f engineFlags) eachStore(e *env, use func([]upkeep.Entry) error) error {
	list, err := upkeep.InCache(f.cacheDir())
	if err != nil {
		return &exitError{exitNotEvaluated, err}
	}
	var closers []func() error
	defer func() {
		for _, c := range slices.Backward(closers) {
			c()
		}
	}()
	err = f.eachEngine(e, func(eng *engine.Engine) error {
		closers = append(closers, eng.Close)
		entries, err := upkeep.InEngine(e.ctx, eng.Name, eng.Images, f.usesOf(eng))
		list = append(list, entries...)
		return err
	})
	if err != nil {
		return &exitError{exitNotEvaluated, err}
	}
	return use(list)
}

// eachEngine opens the engine that is named or, with auto, all there are: daemons
// that answer, and the embedded one where it was used with this cache. Each is open
// until its user closes it.
func (f engineFlags) eachEngine(e *env, use func(*engine.Engine) error) error {
	names := []string{f.Engine}
	if f.Engine == engine.Auto {
		names = []string{engine.Docker, engine.Podman, engine.Embedded}
		if !engine.HasState(f.cacheDir()) || os.Geteuid() != 0 {
			names = names[:2]
		}
	}
	seen := map[string]bool{}
	for _, name := range names {
		one := f
		one.Engine = name
		eng, err := one.open(e)
		if err != nil {
			if f.Engine != engine.Auto {
				return err
			}
			if name == engine.Embedded {
				fmt.Fprintln(e.stderr, "warning: the embedded engine is left alone:", reports.SafeText(err.Error()))
			}
			continue // there is none
		}
		if seen[eng.Name] { // DOCKER_HOST may name Podman
			eng.Close()
			continue
		}
		seen[eng.Name] = true
		if err := use(eng); err != nil {
			return err
		}
	}
	return nil
}

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

func day(t time.Time) string {
	if t.IsZero() {
		return "unknown   "
	}
	return t.Format(time.DateOnly)
}

// age is a time that may be given in days.
type age time.Duration

// UnmarshalText reads "30d" or "36h".
func (a *age) UnmarshalText(text []byte) error {
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n <= 0 || n > 36500 {
			return fmt.Errorf("%q: want an age such as 30d or 36h", text)
		}
		*a = age(n * 24 * float64(time.Hour))
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d <= 0 {
		return fmt.Errorf("%q: want an age such as 30d or 36h", text)
	}
	*a = age(d)
	return nil
}
