package docker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
)

// Sweep implements sandbox.Driver.
func (c *Client) Sweep(ctx context.Context) (int, error) {
	var list []container.Summary
	err := c.ask(ctx, "list containers", func(ctx context.Context) (err error) {
		list, err = c.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", labelOwner))})
		return err
	})
	if err != nil {
		return 0, err
	}
	swept := 0
	for _, ct := range list {
		if !c.leftBehind(ct, time.Now()) {
			continue
		}
		if err := c.remove(ctx, ct.ID); err != nil {
			return swept, fmt.Errorf("a container that an earlier run left behind: %w", err)
		}
		swept++
	}
	return swept, nil
}

// leftBehind reports whether nobody will destroy a container of evalrun's.
func (c *Client) leftBehind(ct container.Summary, now time.Time) bool {
	label := ct.Labels[labelOwner]
	if label == c.owner.String() {
		return false
	}
	o, ok := parseOwner(label)
	if ok {
		switch o.life() {
		case alive:
			return false // however long it takes: the clock may have been set, the machine asleep
		case dead:
			return true
		}
	}
	if c.leases.held(label) {
		return false
	}
	if expiry, err := strconv.ParseInt(ct.Labels[labelExpiry], 10, 64); err == nil && expiry > 0 && now.Unix() > expiry {
		return true
	}
	// Ours never end by themselves: this machine was started anew, or another one's run
	// is about to remove it too.
	return ok && (ct.State == container.StateExited || ct.State == container.StateDead)
}

// Unenforced renders the limits the daemon cannot hold, in words.
func (c *Client) Unenforced(info Info) []string {
	var out []string
	for _, w := range info.Warnings {
		if strings.Contains(w, "No swap limit") || strings.Contains(w, "No memory limit") || strings.Contains(w, "No pids limit") || strings.Contains(w, "No cpu cfs") {
			out = append(out, strings.TrimPrefix(w, "WARNING: "))
		}
	}
	out = append(out, fmt.Sprintf("disk: measured every %s while a command runs", sampleInterval))
	if !c.seesVolumes() {
		out = append(out, "disk: with a read-only root, what is written to the folders that stay writable is not measured: they are volumes of the daemon's, which cannot be read from here")
	}
	return out
}
