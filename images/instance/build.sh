# A subshell of its own: under "if" or "||" bash would not stop at the first failure.
set +e
(set -e; steps) 2>&1 | tee /tmp/build.log
status=${PIPESTATUS[0]}
set -e
if [ "$status" != 0 ]; then
  mkdir -p /opt/evalrun/build-failed
  echo "$status" > /opt/evalrun/build-failed/status
  tail -n 20 /tmp/build.log > /opt/evalrun/build-failed/log
  echo "evalrun: a build step failed with $status; it is seen next whether the tests pass without it"
fi
rm -f /tmp/build.log
