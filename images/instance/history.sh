# Nothing after base_commit may be readable, by any means: every commit object
# in the store must be HEAD or an ancestor of it, and no name may point elsewhere.
cd /testbed
fail() { echo "evalrun: history check failed: $*" >&2; exit 1; }
[ "$(git rev-parse HEAD)" = "$BASE" ] || fail "HEAD is $(git rev-parse HEAD), not base_commit"
git rev-list HEAD | sort > /tmp/reachable
git cat-file --batch-all-objects --batch-check='%(objecttype) %(objectname)' | sed -n 's/^commit //p' | sort > /tmp/stored
if ! cmp -s /tmp/reachable /tmp/stored; then
  fail "commits that are not ancestors of base_commit: $(comm -13 /tmp/reachable /tmp/stored | head -n 3 | tr '\n' ' ')"
fi
[ -z "$(git remote)" ] || fail "a remote is left: $(git remote)"
[ ! -e .git/objects/info/alternates ] || fail "objects are borrowed from another repository"
# Install steps may leave these; their objects were just shown to be no later ones.
rm -rf .git/logs .git/FETCH_HEAD .git/ORIG_HEAD
for ref in $(git for-each-ref --format='%(refname)'); do
  grep -qx "$(git rev-parse "$ref^{commit}")" /tmp/reachable || fail "$ref points past base_commit"
done
rm /tmp/reachable /tmp/stored
