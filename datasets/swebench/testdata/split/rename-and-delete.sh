#!/bin/bash
set -uxo pipefail
cd /testbed
git checkout 0123456789abcdef0123456789abcdef01234567 tests/b.py tests/gone.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/a.py b/tests/b.py
similarity index 100%
rename from tests/a.py
rename to tests/b.py
diff --git a/tests/gone.py b/tests/gone.py
deleted file mode 100644
--- a/tests/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-old
diff --git a/tests/p.png b/tests/p.png
index 1111111..2222222 100644
Binary files a/tests/p.png and b/tests/p.png differ

EOF_114329324912
: '>>>>> Start Test Output'
pytest
: '>>>>> End Test Output'
git checkout 0123456789abcdef0123456789abcdef01234567 tests/b.py tests/gone.py
