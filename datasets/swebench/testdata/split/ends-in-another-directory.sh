#!/bin/bash
set -uxo pipefail
cd /testbed
rm -f sub/new_test.c
git apply -v - <<'EOF'
diff --git a/sub/new_test.c b/sub/new_test.c
new file mode 100644
--- /dev/null
+++ b/sub/new_test.c
@@ -0,0 +1 @@
+new
EOF
cd sub
export CC=gcc
make
: '>>>>> Start Test Output'
make check
: '>>>>> End Test Output'
