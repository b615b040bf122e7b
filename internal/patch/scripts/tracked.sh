# Names those of the paths, or of what was in them, that git tracks.

[ -n "$gitdir" ] && [ -n "$index" ] || fail "$root is not a git repository"
case $index in
/*) ;;
*) index=$top/$index ;;
esac
isolate
GIT_WORK_TREE="$top" GIT_INDEX_FILE="$index"
export GIT_WORK_TREE GIT_INDEX_FILE
tr '\n' '\0' <"$tmp/watch" | xargs -0 git ls-files -z -- >"$tmp/tracked" || fail 'cannot read the index'
tr '\0' '\n' <"$tmp/tracked" >"$tmp/names"
count=0
while [ "$count" -lt 1000 ] && IFS= read -r path; do
	count=$((count + 1))
	tell tracked "$path"
done <"$tmp/names"
say 'done'
