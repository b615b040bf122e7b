#!/usr/bin/env bash
# Makes a Debian machine ready for `make demo` (setup.sh demo) and `make test`
# (setup.sh test): installs what is missing with apt. The demo needs no daemon; it
# uses Docker where one answers. The tests want one: it is started when none
# answers. What is there is left alone, so a second call is quick and changes
# nothing.
#
# Messages go to standard error. Standard output is for the caller's shell:
# settings to evaluate, mostly none.
#
#   DOCKER_HOST           the engine to use; one that is named here is not
#                         started, unless EVALRUN_DOCKERD_ARGS says how
#   EVALRUN_DOCKERD_ARGS  more arguments for a daemon that has to be started
#   EVALRUN_STATE         folder of the daemon's log (default
#                         $XDG_STATE_HOME/evalrun or ~/.local/state/evalrun)
#
# Exit codes: 0 ready, 3 something is missing and was not installed.
set -euo pipefail
cd "$(dirname "$0")/.."

purpose=${1:-demo}
default_host=unix:///var/run/docker.sock
host=${DOCKER_HOST:-$default_host}
state=${EVALRUN_STATE:-${XDG_STATE_HOME:-${HOME:-/root}/.local/state}/evalrun}
log=$state/dockerd.log
settings=$state/dockerd.env # what a daemon started here asks of its users

say() { echo "setup: $*" >&2; }
fail() { say "$@"; exit 3; }
have() { command -v "$1" >/dev/null 2>&1; }
has_dockerd() { have dockerd || [ -x /usr/sbin/dockerd ]; } # users have no sbin in PATH
is_root() { [ "$(id -u)" = 0 ]; }

# answers succeeds when an engine takes requests at $host.
answers() {
  if have docker; then
    timeout 20 docker --host "$host" version >/dev/null 2>&1
  else # the client is not always installed with the daemon; perl is, on Debian
    timeout 20 perl -MIO::Socket::UNIX -e 'exit !IO::Socket::UNIX->new(Peer => $ARGV[0])' "${host#unix://}" 2>/dev/null
  fi
}

check_go() {
  local want found
  want=$(sed -n 's/^go //p' go.mod)
  if ! have go; then
    fail "Go is missing: install Go $want or newer from https://go.dev/dl and put its bin folder into PATH (Debian 12's package golang is too old)"
  fi
  # An older go command fetches the right tool chain by itself where it may.
  if ! found=$(go env GOVERSION 2>&1) || [ "$(printf '%s\n' "$want" "${found#go}" | sort -V | head -n 1)" != "$want" ]; then
    fail "Go is too old ($(echo "$found" | head -n 1)): install Go $want or newer from https://go.dev/dl, or, with Go 1.21 or newer, run 'go env -w GOTOOLCHAIN=auto'"
  fi
}

# wants_docker succeeds when nothing but Docker will do.
wants_docker() { [ "$purpose" = test ] || [ -n "${EVALRUN_DOCKERD_ARGS+set}" ]; }

# has_runtime succeeds when there is what the embedded engine runs sandboxes with;
# users have no sbin in PATH.
has_runtime() {
  local name
  for name in runc crun /usr/sbin/runc /usr/local/sbin/runc; do
    if have "$name"; then return; fi
  done
  return 1
}

# missing_packages prints the Debian packages this machine lacks.
missing_packages() {
  have git || echo git
  have mmdebstrap || have debootstrap || echo mmdebstrap
  is_root || have newuidmap || echo uidmap # mmdebstrap without root wants it
  [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
  if [ "$purpose" = test ] && ! { have gcc && [ -e /usr/include/stdlib.h ]; }; then
    echo gcc libc6-dev # the race detector is C code
  fi
  [ "$purpose" != test ] || have xmllint || echo libxml2-utils # checks JUnit XML against its schema
  [ "$purpose" != test ] || have crun || echo crun # the embedded engine's tests go through every runtime there is
  # Opens HTML reports (100 MB). Machines with another browser of its kind use that.
  [ "$purpose" != test ] || have chromium || have chromium-browser || have google-chrome || echo chromium fonts-dejavu-core
  if ! $engine && wants_docker && ! has_dockerd; then echo docker.io iptables; fi
  if ! $engine && ! wants_docker && ! has_runtime; then echo runc; fi
}

install_packages() {
  local list
  list=$(missing_packages | tr '\n' ' ')
  list=${list% }
  [ -n "$list" ] || return 0
  if ! is_root; then
    fail "missing: $list. Have an administrator run 'apt-get install $list'$(group_advice)"
  fi
  have apt-get || fail "missing: $list, and there is no apt-get here; install what your system calls these"
  say "installing $list"
  mkdir -p "$state"
  local apt=(apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
  # shellcheck disable=SC2086 # a list of words
  if ! { DEBIAN_FRONTEND=noninteractive "${apt[@]}" update &&
    DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y --no-install-recommends $list; } >"$state/apt.log" 2>&1; then
    tail -n 20 "$state/apt.log" >&2
    fail "apt-get could not install $list; all it said is in $state/apt.log"
  fi
}

group_advice() {
  if $engine || ! wants_docker; then return; fi
  echo ", start the Docker daemon, and put you into its group with 'usermod -aG docker $(id -un)' (then log in again)"
}

# wait_for waits for the engine, up to $1 seconds, while process $2 (if given) lives.
wait_for() {
  local end=$((SECONDS + $1)) pid=${2:-}
  until answers; do
    if [ "$SECONDS" -ge "$end" ]; then return 1; fi
    if [ -n "$pid" ] && ! kill -0 "$pid" 2>/dev/null; then return 1; fi
    sleep 0.3
  done
}

# runs succeeds when the process of pid file $1 is alive and called $2. One that
# was killed and not yet waited for has no executable any more.
runs() {
  [ "$(basename "$(readlink "/proc/$(cat "$1" 2>/dev/null || echo none)/exe" 2>/dev/null)" 2>/dev/null)" = "$2" ]
}

# daemon_comes_up gives a daemon that is just starting (a package's script does
# that) time to answer. Pid files of one that was killed go: while their numbers
# are taken, dockerd would not start.
daemon_comes_up() {
  local pidfile exec_root
  pidfile=$(sed -n 's/.*--pidfile[ =]\([^ ]*\).*/\1/p' <<<"${EVALRUN_DOCKERD_ARGS:-}")
  exec_root=$(sed -n 's/.*--exec-root[ =]\([^ ]*\).*/\1/p' <<<"${EVALRUN_DOCKERD_ARGS:-}")
  pidfile=${pidfile:-/var/run/docker.pid}
  if runs "$pidfile" dockerd; then
    wait_for 30
    return
  fi
  rm -f "$pidfile"
  pidfile=${exec_root:-/var/run/docker}/containerd/containerd.pid
  if ! runs "$pidfile" containerd; then rm -f "$pidfile"; fi
  return 1
}

# spawn starts a daemon that outlives this script, and waits until it answers.
spawn() {
  local host_args=()
  if [ "$host" != "$default_host" ]; then host_args=(--host "$host"); fi
  # shellcheck disable=SC2086 # arguments are separated by spaces
  setsid nohup dockerd "${host_args[@]}" ${EVALRUN_DOCKERD_ARGS:-} "$@" >"$log" 2>&1 </dev/null 9>&- &
  wait_for 60 $! || { kill $! 2>/dev/null || true; return 1; }
}

start_engine() {
  if ! is_root; then
    if [ -S "${host#unix://}" ]; then
      fail "no engine answers $(id -un) at $host. If one runs there, have an administrator run 'usermod -aG docker $(id -un)', then log in again; else have it started"
    fi
    fail "no Docker daemon runs. Have an administrator run 'systemctl start docker' (or 'dockerd &') and 'usermod -aG docker $(id -un)', then log in again"
  fi
  mkdir -p "$state"
  exec 9>"$state/setup.lock"
  flock 9 # two set-ups at once start one daemon
  if answers; then return; fi
  rm -f "$settings"
  if daemon_comes_up; then return; fi
  if [ -z "${EVALRUN_DOCKERD_ARGS:-}" ] && [ -d /run/systemd/system ] && systemctl start docker >/dev/null 2>&1 && wait_for 60; then
    say "started the Docker daemon (systemctl start docker)"
    return
  fi
  say "starting dockerd (log: $log)"
  if spawn; then return; fi
  if grep -qiE 'iptables|bridge|nf_tables' "$log"; then
    # Inside some containers there is no packet filter to set up. The sandboxes
    # need none; builds then share the machine's own network.
    say "dockerd cannot set up its network here; trying without"
    cp "$log" "$log.1"
    if spawn --iptables=false --ip6tables=false --bridge=none; then
      printf '# dockerd %s\nexport EVALRUN_BUILD_NETWORK=host\n' "$!" >"$settings"
      return
    fi
  fi
  tail -n 20 "$log" >&2
  fail "dockerd did not start; the end of its log is above, all of it in $log"
}

check_go
engine=false
if answers; then
  engine=true
elif [ "$host" != "$default_host" ] && [ -z "${EVALRUN_DOCKERD_ARGS+set}" ]; then
  fail "no engine answers at DOCKER_HOST=$host; start it, or unset DOCKER_HOST"
fi
install_packages
if ! $engine && wants_docker; then start_engine; fi
if [ -f "$settings" ] && [ -d "/proc/$(sed -n 's/^# dockerd //p' "$settings")" ]; then
  cat "$settings"
  say "builds use the machine's own network (EVALRUN_BUILD_NETWORK=host)"
fi
