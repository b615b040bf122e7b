#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen
export LANG=en_US.UTF-8
export LC_ALL=en_US.UTF-8
git config --global --add safe.directory /testbed
cd /testbed
git status
git show
git -c core.fileMode=false diff 0123456789abcdef0123456789abcdef01234567
source /opt/miniconda3/bin/activate
conda activate testbed
python -m pip install -e .
git checkout 0123456789abcdef0123456789abcdef01234567 tests/test_old.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_old.py b/tests/test_old.py
--- a/tests/test_old.py
+++ b/tests/test_old.py
@@ -1 +1 @@
-old
+new

EOF_114329324912
python -m pip install -q 'pytest<7.2'
export SETUPTOOLS_USE_DISTUTILS=stdlib
: '>>>>> Start Test Output'
pytest -rA tests/test_old.py
: '>>>>> End Test Output'
git checkout 0123456789abcdef0123456789abcdef01234567 tests/test_old.py
