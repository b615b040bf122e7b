#!/usr/bin/env bash
# how we test
set -o pipefail
retry() {
  "$@" || "$@"
}
cd /testbed
if [ -f ~/.profile ]; then
  source ~/.profile
fi
[ -d /opt/tools ] && export PATH=/opt/tools:$PATH
python -m venv .venv
source .venv/bin/activate
cat > settings.ini <<INI
[db]
export = '>>>>> Start Test Output'
INI
for p in a b; do
  retry pip install "$p"
done
rm -f leftovers.txt
echo ready
git checkout 0123456789abcdef0123456789abcdef01234567 -- tests/t.py
git apply - <<'PATCH'
diff --git a/tests/t.py b/tests/t.py
--- a/tests/t.py
+++ b/tests/t.py
@@ -1 +1 @@
-old
+new
PATCH
make \
  all
: ">>>>> Start Test Output"
pytest tests/t.py
SWEBENCH_TEST_EXIT_CODE=$?
: ">>>>> End Test Output"
echo ">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE"
