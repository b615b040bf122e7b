# The tools every benchmark's scripts take for granted, and the headers
# interpreters and compiled extensions want. Names are the same in every suite.
if command -v apt-get >/dev/null; then
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends \
    bash ca-certificates curl wget git patch locales tzdata procps less unzip xz-utils zip jq file sudo \
    build-essential pkg-config \
    libssl-dev libffi-dev libsqlite3-dev libreadline-dev libbz2-dev liblzma-dev zlib1g-dev libncurses-dev \
    libnsl-dev libgdbm-dev uuid-dev python3 >/dev/null
  # Debian's images refuse to keep locales unless asked for one by one.
  sed -i 's/^# *\(en_US.UTF-8 UTF-8\)/\1/' /etc/locale.gen
  grep -q '^en_US.UTF-8' /etc/locale.gen || echo 'en_US.UTF-8 UTF-8' >> /etc/locale.gen
  locale-gen >/dev/null
fi
for tool in bash git patch tar; do
  command -v $tool >/dev/null || { echo "evalrun: the base has no $tool and no apt-get to install it" >&2; exit 1; }
done
if ! id nonroot >/dev/null 2>&1; then
  if command -v useradd >/dev/null; then useradd --create-home --shell /bin/bash nonroot
  else
    echo 'nonroot:x:1000:1000::/home/nonroot:/bin/bash' >> /etc/passwd
    echo 'nonroot:x:1000:' >> /etc/group
    mkdir -p /home/nonroot && chown 1000:1000 /home/nonroot
  fi
fi
mkdir -p /testbed /opt
# Repositories in the sandbox belong to another user than the one who asks.
git config --system --add safe.directory '*'
git config --system user.email evalrun@localhost
git config --system user.name evalrun
git config --system gc.auto 0
git config --system advice.detachedHead false
