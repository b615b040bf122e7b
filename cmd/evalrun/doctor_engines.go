package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"

	"github.com/evalrun/evalrun/internal/engine"
	"github.com/evalrun/evalrun/internal/sandbox/docker"
	"github.com/evalrun/evalrun/reports"
)

// engines looks at every engine there is. One of them is enough: what another
// lacks is a note.
func (c *doctorCmd) engines(e *env) (list []finding, root string) {
	daemon, root, chosen := dockerFindings(e)
	embedded, embeddedWorks := c.embedded(e)
	list = append(daemon, embedded...)
	if chosen == engine.Podman && !embeddedWorks {
		chosen = "" // its images come from there
	}
	if chosen == "" && embeddedWorks {
		chosen = engine.Embedded
	}
	if chosen == "" {
		return list, root
	}
	for i := range list {
		if list[i].level == "missing" {
			list[i].level = "note"
		}
	}
	return append(list, finding{"ok", "--engine auto takes " + chosen, ""}), root
}

// dockerFindings also tells which engine it is that answers, "" for none.
func dockerFindings(e *env) (list []finding, root, works string) {
	c, err := docker.Connect(e.ctx)
	if err != nil {
		fix := "install it (`apt-get install docker.io`) and start it (`dockerd &`, or `systemctl start docker`)"
		if _, lookErr := exec.LookPath("dockerd"); lookErr == nil {
			fix = "it is installed: start it as root with `dockerd &` or `systemctl start docker`"
		}
		if os.Geteuid() != 0 {
			fix += "; as a user without root, have an administrator do so and add you to the group docker"
		}
		return []finding{{"missing", "docker: " + err.Error(), fix}}, "", ""
	}
	defer c.Close()
	info, err := c.Info(e.ctx)
	if err != nil {
		return []finding{{"missing", "docker: " + err.Error(), "look at the daemon's log"}}, "", ""
	}
	if c.Podman() {
		return []finding{{"ok", fmt.Sprintf("podman %s at the address of docker: images come from the embedded engine", info.Version), ""}}, info.RootDir, engine.Podman
	}
	works = engine.Docker
	list = append(list, finding{"ok", fmt.Sprintf("docker %s, API %s, storage driver %s, cgroup v%s, runtime %s, %s",
		info.Version, info.APIVersion, info.StorageDriver, info.CgroupVersion, info.Runtime, info.Architecture), ""})
	if info.StorageDriver == "vfs" {
		list = append(list, finding{"note", "docker: storage driver vfs copies every layer whole", "use overlay2: it needs a file system that overlayfs can stand on"})
	}
	if err := c.HasBuildKit(e.ctx); err != nil {
		works = ""
		list = append(list, finding{"missing", "docker: " + err.Error(), "use Docker 18.09 or newer"})
	} else {
		list = append(list, finding{"ok", "docker: BuildKit in the daemon", ""})
	}
	for _, u := range c.Unenforced(info) {
		list = append(list, finding{"note", "docker: limit: " + u, ""})
	}
	return list, info.RootDir, works
}

// embedded sets the embedded engine up as a run would.
func (c *doctorCmd) embedded(e *env) (list []finding, works bool) {
	flags := c.engineFlags
	flags.Engine = engine.Embedded
	eng, err := flags.open(e)
	if err != nil {
		fix := "`apt-get install runc`, and run as root, or as a user with subordinate ids"
		return append([]finding{{"missing", "embedded: " + reports.SafeText(err.Error()), fix}}, userNamespaces()...), false
	}
	defer eng.Close()
	text := fmt.Sprintf("embedded: %s, layers with %s, runtime %s, control groups ", eng.Info.Version, eng.Info.StorageDriver, eng.Info.Runtime)
	if eng.Info.CgroupVersion == "none" {
		text += "not writable"
	} else {
		text += "v" + eng.Info.CgroupVersion + ", writable"
	}
	list = append(list, finding{"ok", text, ""})
	if disk, err := eng.Disk(); err == nil {
		list = append(list, finding{"ok", "embedded: " + disk, ""})
	}
	if _, reason, ok := strings.Cut(eng.Why, "; "); ok {
		list = append(list, finding{"note", "embedded: " + reports.SafeText(reason), "keep the cache on a file system such as ext4 or xfs (--cache)"})
	}
	for _, u := range eng.Unenforced() {
		list = append(list, finding{"note", "embedded: limit: " + u, ""})
	}
	return append(list, userNamespaces()...), true
}

// userNamespaces says whether the embedded engine works without root.
func userNamespaces() []finding {
	if os.Geteuid() == 0 {
		return nil
	}
	var list []finding
	if text, err := os.ReadFile("/proc/sys/user/max_user_namespaces"); err != nil || string(bytes.TrimSpace(text)) == "0" {
		list = append(list, finding{"missing", "user namespaces are switched off", "as root: `sysctl user.max_user_namespaces=15000`"})
	} else {
		list = append(list, finding{"ok", "user namespaces", ""})
	}
	name := "this user"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	for _, path := range []string{"/etc/subuid", "/etc/subgid"} {
		text, _ := os.ReadFile(path)
		if !strings.Contains("\n"+string(text), "\n"+name+":") {
			list = append(list, finding{"missing", filepath.Base(path) + ": no subordinate ids of " + name, fmt.Sprintf("as root: `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s`", name)})
		} else {
			list = append(list, finding{"ok", filepath.Base(path) + ": subordinate ids of " + name, ""})
		}
	}
	if _, err := exec.LookPath("newuidmap"); err != nil {
		list = append(list, finding{"missing", "newuidmap: maps subordinate ids", "apt-get install uidmap"})
	}
	return list
}
