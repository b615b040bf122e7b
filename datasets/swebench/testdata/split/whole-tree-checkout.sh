#!/bin/bash
set -uxo pipefail
cd /testbed
git checkout 0123456789abcdef0123456789abcdef01234567 
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_new.py b/tests/test_new.py
new file mode 100644
--- /dev/null
+++ b/tests/test_new.py
@@ -0,0 +1 @@
+new

EOF_114329324912
: '>>>>> Start Test Output'
pytest -rA tests/test_new.py
: '>>>>> End Test Output'
git checkout 0123456789abcdef0123456789abcdef01234567 
