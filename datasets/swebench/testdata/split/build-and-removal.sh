#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git status
git checkout 0123456789abcdef0123456789abcdef01234567 tests/old.rs && rm -f tests/new.suffix tests/new.json~
git apply -v - <<'EOF_114329324912'
diff --git a/tests/old.rs b/tests/old.rs
--- a/tests/old.rs
+++ b/tests/old.rs
@@ -1 +1 @@
-old
+new
diff --git a/tests/new.suffix b/tests/new.suffix
new file mode 100644
--- /dev/null
+++ b/tests/new.suffix
@@ -0,0 +1 @@
+new
diff --git a/tests/new.json~ b/tests/new.json~
new file mode 100644
--- /dev/null
+++ b/tests/new.json~
@@ -0,0 +1 @@
+new

EOF_114329324912
source ./tools/ci.sh
mkdir -p build
cd build
cmake ..
cd ..
: '>>>>> Start Test Output'
(bundle exec rspec spec/a_spec.rb --format json | sed -n '/^{/,$p' | \
  jq -r '.examples | group_by(.description) | .[] |
    if any(select(.status == "failed")) then
      (.[0] | "\(.description) - failed")
    end') | cat
: '>>>>> End Test Output'
git checkout 0123456789abcdef0123456789abcdef01234567 tests/old.rs && rm -f tests/new.suffix tests/new.json~
