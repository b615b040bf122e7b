#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
source $NVM_DIR/nvm.sh
git status
git checkout 0123456789abcdef0123456789abcdef01234567 test/fixtures/a.png
test -d /assets && cp -a /assets/. /testbed/ 2>/dev/null || true
if ! git diff --quiet HEAD -- package.json 2>/dev/null; then echo "changed"; export SKIP_DOWNLOAD=true; npm install || true; fi
: '>>>>> Start Test Output'
npm run build ; su chromeuser -c "karma start --single-run"
: '>>>>> End Test Output'
git checkout 0123456789abcdef0123456789abcdef01234567 test/fixtures/a.png
