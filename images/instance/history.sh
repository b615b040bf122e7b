# Nothing after base_commit may be readable, by any means: every commit object
# in the store must be HEAD or an ancestor of it, no name may point elsewhere,
# and no content may be left over that these commits and the index do not have.

# A replacement would let a later commit pass for an ancestor; so would a graft.
export GIT_NO_REPLACE_OBJECTS=1
cd "${TESTBED:-/testbed}"
lists=$(mktemp -d)
fail() { echo "evalrun: history check failed: $*" >&2; exit 1; }
few() { head -n 3 | tr '\n' ' '; }

# A submodule that an install step has cloned brings its whole history: leave
# the pinned commit. What was put in beforehand is like that already.
trim() {
  [ "$(git cat-file --batch-all-objects --batch-check='%(objecttype)' | grep -c '^commit')" != 1 ] || return 0
  git rev-parse HEAD > "$GIT_DIR/shallow"
  git for-each-ref --format='delete %(refname)' | git update-ref --no-deref --stdin
  git remote | while read -r name; do git remote remove "$name"; done
  rm -rf "$GIT_DIR/logs" "$GIT_DIR/FETCH_HEAD" "$GIT_DIR/ORIG_HEAD"
  git repack -a -d -q
  git prune --expire=now
}

# check NAME: the repository GIT_DIR names.
check() {
  [ ! -s "$GIT_DIR/objects/info/alternates" ] || fail "$1: objects are borrowed from another repository"
  [ ! -s "$GIT_DIR/info/grafts" ] || fail "$1: grafts change the history"
  [ -z "$(git remote)" ] || fail "$1: a remote is left: $(git remote | few)"
  git rev-list HEAD | sort > "$lists/reachable"
  git cat-file --batch-all-objects --batch-check='%(objecttype) %(objectname)' > "$lists/all"
  sed -n 's/^commit //p' "$lists/all" | sort > "$lists/commits"
  if ! cmp -s "$lists/reachable" "$lists/commits"; then
    fail "$1: commits that are not ancestors of HEAD: $(comm -13 "$lists/reachable" "$lists/commits" | few)"
  fi
  for ref in $(git for-each-ref --format='%(refname)'); do
    commit=$(git rev-parse --quiet --verify "$ref^{commit}") || fail "$1: $ref names no commit"
    grep -qx "$commit" "$lists/reachable" || fail "$1: $ref points past HEAD"
  done
  # Trees of early commits are left out on purpose, hence --missing.
  { git rev-list --objects --no-object-names --missing=allow-any --indexed-objects HEAD
    git for-each-ref --format='%(objectname)'; } | sort -u > "$lists/known"
  sed 's/^[^ ]* //' "$lists/all" | sort | comm -13 "$lists/known" - > "$lists/dangling"
  # Content that something staged and dropped again is litter where it lies
  # loose; what is in a pack was fetched.
  while read -r id; do
    rm -f "$GIT_DIR/objects/${id%"${id#??}"}/${id#??}"
    ! git cat-file -e "$id" 2>/dev/null || fail "$1: content of no commit: $id"
  done < "$lists/dangling"
  # These may remain from install steps; the commits they name are no later ones.
  rm -rf "$GIT_DIR/logs" "$GIT_DIR/FETCH_HEAD" "$GIT_DIR/ORIG_HEAD"
}

[ "$(git rev-parse HEAD)" = "$BASE" ] || fail "HEAD is $(git rev-parse HEAD), not base_commit"
if [ -d .git/modules ]; then
  find .git/modules -type f -name HEAD -not -path '*/logs/*' -print0 | sort -z > "$lists/modules"
  while IFS= read -r -d '' head; do
    GIT_DIR=${head%/HEAD}
    [ -d "$GIT_DIR/objects" ] || continue
    (export GIT_DIR GIT_WORK_TREE=.; trim; check "$GIT_DIR")
  done < "$lists/modules"
fi
(export GIT_DIR=.git; check "base_commit")
rm -r "$lists"
