#!/bin/bash
set -uxo pipefail
cd /testbed
git checkout 0123456789abcdef0123456789abcdef01234567 test/a.js
mkdir -p test/images
curl -o test/images/b.png http://127.0.0.1/b.png
chmod 777 test/images/b.png
git apply --verbose --reject - <<'EOF_114329324912'
diff --git a/test/a.js b/test/a.js
--- a/test/a.js
+++ b/test/a.js
@@ -1 +1 @@
-old
+new

EOF_114329324912
: '>>>>> Start Test Output'
npm test
: '>>>>> End Test Output'
git checkout 0123456789abcdef0123456789abcdef01234567 test/a.js
