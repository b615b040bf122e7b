#!/usr/bin/env bash
# Says so when the next compilation will take minutes: on a machine that has
# not compiled the large dependencies yet. Arguments go to go list (-race).
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(go list "$@" -f '{{.Stale}}' github.com/moby/buildkit/client 2>/dev/null)" != false ]; then
  echo "compiling the BuildKit and Docker clients; 2 to 6 minutes the first time" >&2
fi
