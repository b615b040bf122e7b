#!/bin/bash
set -uxo pipefail
cd /testbed
rm -f spec/new_spec.rb
git apply -v - <<'EOF_114329324912'
diff --git a/spec/new_spec.rb b/spec/new_spec.rb
new file mode 100644
--- /dev/null
+++ b/spec/new_spec.rb
@@ -0,0 +1 @@
+new

EOF_114329324912
{ set +x; } 2>/dev/null
echo '>>>>> Start Test Output'
(bundle exec rspec spec/new_spec.rb) 2>/tmp/swebench_test_stderr.log | cat
echo '>>>>> End Test Output'
cat /tmp/swebench_test_stderr.log >&2 || true
set -x
rm -f spec/new_spec.rb
