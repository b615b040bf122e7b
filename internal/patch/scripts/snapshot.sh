# Names the tracked files as they are now, as a git tree. Set above: before, the
# tree of an earlier call, or nothing. With it, says what has changed since.
#
# The index stays as it is. Its times are the image's, its inodes often are not,
# so that only size and time tell which files have to be read.

[ -n "$gitdir" ] && [ -n "$index" ] || fail "$root is not a git repository"
cp -p -- "$index" "$tmp/index-now" || fail 'cannot copy the index'
isolate
export GIT_WORK_TREE="$top"
export GIT_INDEX_FILE="$tmp/index-now"
# Whatever it takes, it must not take the time of what else this process does.
limit=
command -v timeout >"$tmp/null" 2>&1 && limit='timeout 60'
$limit git -c core.checkStat=minimal -c core.trustctime=false -c core.fsmonitor= add -u . >"$tmp/null" || fail 'cannot read the tracked files'
tree=$(git write-tree) || fail 'cannot write a tree'
say tree "$tree"
[ "$before" != "$tree" ] && [ -n "$before" ] || { say 'done'; exit 0; }
git -c core.quotePath=false diff-tree -r --no-renames --name-status "$before" "$tree" >"$tmp/changed" || fail "cannot compare with $before"
count=0
while [ "$count" -lt 1000 ] && IFS='	' read -r status path; do
	count=$((count + 1))
	encode "$path"
	say changed "$status" "$word"
done <"$tmp/changed"
say 'done'
