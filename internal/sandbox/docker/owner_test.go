package docker

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
)

// endedOwner is the label of a process of this machine that has ended.
func endedOwner(t testing.TB) owner {
	t.Helper()
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o := owner{host: hostID(), pid: cmd.Process.Pid, start: processStart(cmd.Process.Pid)}
	if o.life() != alive {
		t.Errorf("%v counts as ended while it runs", o)
	}
	cmd.Process.Kill()
	cmd.Wait()
	return o
}

func TestOwner(t *testing.T) {
	me := thisProcess()
	if got, ok := parseOwner(me.String()); !ok || got != me {
		t.Errorf("parseOwner(%q) = %+v, %v", me.String(), got, ok)
	}
	if me.life() != alive {
		t.Error("this process counts as ended")
	}
	if o := endedOwner(t); o.life() != dead {
		t.Errorf("%v counts as alive after its end", o)
	}
	reused := me
	reused.start = "1"
	if reused.life() != dead {
		t.Error("another process under the same id counts as the owner")
	}
	for _, host := range []string{"another-boot-1", strings.Split(me.host, "-")[0] + "-1"} {
		foreign := me
		foreign.host = host
		if foreign.life() != unknown {
			t.Errorf("the process on %s is said to be known", host)
		}
	}
	for _, bad := range []string{"", "12", "host", "host.", "host.x.1", ".1.2", "host.1"} {
		if o, ok := parseOwner(bad); ok {
			t.Errorf("parseOwner(%q) = %+v, want a refusal", bad, o)
		}
	}
}

func TestLeftBehind(t *testing.T) {
	now := time.Now()
	later, before := strconv.FormatInt(now.Add(time.Hour).Unix(), 10), strconv.FormatInt(now.Add(-time.Hour).Unix(), 10)
	c := &Client{owner: thisProcess()}
	ended := endedOwner(t)
	other := c.owner // a process that lives and is not this one
	other.pid, other.start = 1, processStart(1)
	foreign := owner{host: "elsewhere-1", pid: 1, start: "1"}
	tests := []struct {
		name          string
		owner, expiry string
		state         container.ContainerState
		want          bool
	}{
		{"our own", c.owner.String(), later, "running", false},
		{"our own, expired", c.owner.String(), before, "running", false},
		{"of a live process", other.String(), later, "running", false},
		{"of a live process, exited", other.String(), later, "exited", false},
		{"of a live process, expired", other.String(), before, "running", false},
		{"of a live process, without expiry", other.String(), "-62135596800", "running", false},
		{"of a dead process", ended.String(), later, "running", true},
		{"of a dead process, never started", ended.String(), later, "created", true},
		{"of another machine", foreign.String(), later, "running", false},
		{"of another machine, just made", foreign.String(), later, "created", false},
		{"of another machine or boot, exited", foreign.String(), later, "exited", true},
		{"of another machine, expired", foreign.String(), before, "running", true},
		{"unreadable label", "?", later, "exited", false},
		{"unreadable label, expired", "?", before, "running", true},
	}
	for _, tt := range tests {
		ct := container.Summary{State: tt.state, Labels: map[string]string{labelOwner: tt.owner, labelExpiry: tt.expiry}}
		if got := c.leftBehind(ct, now); got != tt.want {
			t.Errorf("%s: left behind %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestContainerName(t *testing.T) {
	for _, hint := range []string{"", "django__django-11099", "a/b c:d", "ünï\n..", strings.Repeat("long", 100)} {
		one, two := containerName(hint), containerName(hint)
		if one == two {
			t.Errorf("%q: two sandboxes would both be called %s", hint, one)
		}
		if len(one) > 120 || strings.Trim(one, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
			t.Errorf("%q: %q is no valid name", hint, one)
		}
	}
}
