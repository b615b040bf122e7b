#!/usr/bin/env bash
# Prints "package function" for every fuzz target (each.sh Fuzz) or benchmark
# (each.sh Benchmark), without compiling anything.
set -euo pipefail
cd "$(dirname "$0")/.."
find . -name '*_test.go' | while read -r file; do
  sed -n "s#^func \($1[A-Za-z0-9_]*\)(.*#$(dirname "$file") \1#p" "$file"
done | sort
