package oci

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/evalrun/evalrun/internal/sandbox"
)

// firstProcess says that it is there, then reads its input until that ends with
// the process that holds the other side. As the first of its process namespace it
// gets none of the signals sent from inside, so the tests cannot end it. It
// ignores SIGCHLD, so that the kernel itself reaps what the tests leave behind;
// where env cannot arrange that, the shell does while it waits for a copy of itself. It
// starts no program then: by that time any of the sandbox may be the model's. A copy may
// be made to end, and has come to the end of the input only if others do so, too.
const firstProcess = sandbox.Unmoved + `exec 3<&0
echo ready
env --ignore-signal=CHLD true 2>/dev/null && exec env --ignore-signal=CHLD cat >/dev/null 2>&1 3<&-
input() { while read -r line <&3; do :; done; }
until (input) && (input) && (input); do :; done`

const hosts = "127.0.0.1\tlocalhost testbed\n::1\tlocalhost ip6-localhost ip6-loopback testbed\n"

// runtimeSpec is what the runtime is told about a sandbox.
func (d *Driver) runtimeSpec(s sandbox.Spec, env []string, root, group string, writable []specs.Mount) *specs.Spec {
	first := s
	first.User = ""
	script := firstProcess
	if handover := s.Handover(); handover != "" {
		script = handover + " || exit\n" + script
	}
	spec := &specs.Spec{
		Version:  "1.0.2",
		Hostname: "testbed",
		Root:     &specs.Root{Path: root, Readonly: s.ReadOnly},
		Process:  d.process(first, env, "/", []string{"/bin/sh", "-c", script}),
		Mounts:   d.mounts(),
		Linux: &specs.Linux{
			CgroupsPath: group,
			Resources:   d.groups.resources(s.Limits),
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.MountNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace}, {Type: specs.NetworkNamespace}, {Type: specs.CgroupNamespace},
			},
			Sysctl: d.sysctls(),
			MaskedPaths: []string{
				"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
				"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
			},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	if s.ReadOnly {
		options := []string{"nosuid", "nodev", "mode=1777"}
		if n := s.Limits.ScratchBytes(); n > 0 {
			options = append(options, fmt.Sprintf("size=%d", n))
		}
		for _, dir := range sandbox.Scratch {
			if dir != "/dev/shm" { // is one already
				spec.Mounts = append(spec.Mounts, specs.Mount{Destination: dir, Type: "tmpfs", Source: "tmpfs", Options: options})
			}
		}
		spec.Mounts = append(spec.Mounts, writable...)
	}
	spec.Linux.Seccomp = seccomp.DefaultProfile(spec)
	// Runtimes translate the profile once for every architecture, for every process,
	// and next to no kernel runs x32.
	spec.Linux.Seccomp.Architectures = slices.DeleteFunc(spec.Linux.Seccomp.Architectures, func(a specs.Arch) bool { return a == specs.ArchX32 })
	return spec
}

// process is a process in a sandbox.
func (d *Driver) process(s sandbox.Spec, env []string, dir string, argv []string) *specs.Process {
	var kept []string
	for _, name := range slices.Concat(sandbox.Capabilities, s.Capabilities) {
		if name = "CAP_" + strings.TrimPrefix(strings.ToUpper(name), "CAP_"); !slices.Contains(kept, name) {
			kept = append(kept, name)
		}
	}
	limits := []specs.POSIXRlimit{{Type: "RLIMIT_CORE"}, {Type: "RLIMIT_NOFILE", Soft: 10240, Hard: 10240}}
	if n := uint64(s.Limits.DiskBytes); n > 0 {
		// One file cannot pass the limit; the sum of all is watched while commands run.
		limits = append(limits, specs.POSIXRlimit{Type: "RLIMIT_FSIZE", Soft: n, Hard: n})
	}
	umask := uint32(0o022)
	p := &specs.Process{
		User: specs.User{Umask: &umask},
		Args: argv, Env: env, Cwd: dir, NoNewPrivileges: true, Rlimits: limits,
		Capabilities: &specs.LinuxCapabilities{Bounding: kept, Effective: kept, Permitted: kept},
	}
	if uid, gid, _ := sandbox.ParseUser(s.User); uid != 0 {
		p.User.UID, p.User.GID = uid, gid
		p.Capabilities.Effective, p.Capabilities.Permitted = nil, nil
	}
	return p
}

// environment joins lists of NAME=value, of which the later count.
func environment(lists ...[]string) []string {
	values := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "HOSTNAME": "testbed",
	}
	for _, list := range lists {
		for _, pair := range list {
			name, value, _ := strings.Cut(pair, "=")
			values[name] = value
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, name+"="+values[name])
	}
	return out
}

func (d *Driver) mounts() []specs.Mount {
	terminals := []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}
	if !d.userNS {
		terminals = append(terminals, "gid=5")
	}
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: terminals},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=67108864"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
	}
	if d.groups.version != "none" {
		// Language runtimes look here for how much they may use.
		mounts = append(mounts, specs.Mount{
			Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", "ro"},
		})
	}
	return mounts
}

// sysctls are those of the sandbox's own network.
func (d *Driver) sysctls() map[string]string {
	set := map[string]string{}
	if exists("/proc/sys/net/ipv6") {
		for _, name := range []string{"all", "default", "lo"} {
			set["net.ipv6.conf."+name+".disable_ipv6"] = "0"
		}
	}
	return set
}
