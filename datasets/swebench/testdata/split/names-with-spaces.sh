#!/bin/bash
set -uxo pipefail
cd /testbed
git checkout 0123456789abcdef0123456789abcdef01234567 'docs/it'\''s here.md' "tests/two words.py" site/_pages tests/code.mdx plain.py
git apply -v - <<'EOF_114329324912'
diff --git a/docs/it's here.md b/docs/it's here.md
--- a/docs/it's here.md
+++ b/docs/it's here.md
@@ -1 +1 @@
-old
+new
diff --git a/tests/two words.py b/tests/two words.py
--- a/tests/two words.py
+++ b/tests/two words.py
@@ -1 +1 @@
-old
+new
diff --git a/site/_pages tests/code.mdx b/site/_pages tests/code.mdx
--- a/site/_pages tests/code.mdx
+++ b/site/_pages tests/code.mdx
@@ -1 +1 @@
-old
+new
diff --git a/plain.py b/plain.py
--- a/plain.py
+++ b/plain.py
@@ -1 +1 @@
-old
+new

EOF_114329324912
: '>>>>> Start Test Output'
pytest
: '>>>>> End Test Output'
git checkout 0123456789abcdef0123456789abcdef01234567 'docs/it'\''s here.md' "tests/two words.py" site/_pages tests/code.mdx plain.py
