# Brings the files of the tests back to the base commit, then applies the test
# patch, if there is one: restore.sh [FILE]. Set above: base.
#
# Both are done in a folder of their own, which holds nothing but those files, with
# an index made of the base commit, and copied from there. So no .gitattributes of
# the model's changes what git writes, and a test patch that fails leaves no trace.
#
# Code of the model may have run before. Whatever the files come from is hashed
# again: git itself does not notice an object put in the place of another.

[ -n "$gitdir" ] || fail "$root is not a git repository"
# The whole name of a commit is not looked up first: reading it fails when it is none.
case $trusted:${#base}:$base in
yes:40:*[!0-9a-f]* | yes:64:*[!0-9a-f]*) named=yes ;;
yes:40:* | yes:64:*) named= ;;
*) named=yes ;;
esac
if [ -n "$named" ]; then
	wanted=$base
	base=$(git rev-parse --quiet --verify "$base^{commit}") || fail "commit $wanted is not in the repository"
fi
isolate

# genuine reports whether an object is what its name says: genuine TYPE NAME
genuine() { [ "$(git cat-file "$1" "$2" | git hash-object -t "$1" --stdin)" = "$2" ]; }

if [ -z "$trusted" ]; then
	genuine commit "$base" && genuine tree "$(git rev-parse "$base^{tree}")" || fail "commit $base has been replaced by another"
	: >"$tmp/listed"
	[ ! -s "$tmp/watch" ] || tr '\n' '\0' <"$tmp/watch" | xargs -0 git ls-tree -r -t "$base" -- >"$tmp/listed" || fail "cannot read commit $base"
	sort -u "$tmp/listed" | while read -r _ type name _; do
		[ "$type" = commit ] || genuine "$type" "$name" || fail "$type $name of commit $base has been replaced by another"
	done || exit 1
fi
GIT_INDEX_FILE=$tmp/index git read-tree "$base" || fail "commit $base is not in the repository, or cannot be read"
tr '\n' '\0' <"$tmp/watch" | (
	cd -- "$tmp/base" &&
		GIT_DIR=$gitdir GIT_WORK_TREE=$tmp/base GIT_INDEX_FILE=$tmp/index git checkout-index --quiet --force -z --stdin
)
: >"$tmp/back" && : >"$tmp/other" && : >"$tmp/names" && : >"$tmp/types"
while IFS= read -r path; do
	if [ -f "$tmp/base/$path" ] || [ -L "$tmp/base/$path" ]; then
		printf '%s\n' "$path" >>"$tmp/back"
	else
		printf '%s\n' "$path" >>"$tmp/other"
		printf '%s:%s\n' "$base" "$path" >>"$tmp/names"
	fi
done <"$tmp/watch"
[ ! -s "$tmp/names" ] || git cat-file --batch-check <"$tmp/names" >"$tmp/types" || fail "cannot read commit $base"

# clear removes what stands in the way of the folders above a path.
clear() {
	rest=$1 dir=
	while :; do
		case $rest in */*) ;; *) return ;; esac
		dir=$dir${rest%%/*} rest=${rest#*/}
		if [ -L "./$dir" ] || { [ -e "./$dir" ] && [ ! -d "./$dir" ]; }; then
			rm -f -- "./$dir"
			tell cleared "$dir"
		fi
		dir=$dir/
	done
}

same() {
	[ -f "./$1" ] && [ ! -L "./$1" ] && [ ! -L "$tmp/base/$1" ] || return 1
	if [ -x "./$1" ]; then [ -x "$tmp/base/$1" ]; else [ ! -x "$tmp/base/$1" ]; fi || return 1
	cmp -s -- "./$1" "$tmp/base/$1"
}

# put copies a path from the folder to the checkout, unless it is the same there.
put() {
	same "$1" && state=kept && return
	if [ -e "./$1" ] || [ -L "./$1" ]; then rm -rf -- "./$1"; fi
	case $1 in */*) [ -d "./${1%/*}" ] || mkdir -p -- "./${1%/*}" || return ;; esac
	cp -dp -- "$tmp/base/$1" "./$1" && state=restored
}

# What does not exist at the base commit goes first: it may stand where a file or
# a folder of the base commit belongs.
exec 3<"$tmp/types"
while IFS= read -r path && read -r type <&3; do
	clear "$path"
	case $type in
	*' missing')
		state=absent
		if [ -e "./$path" ] || [ -L "./$path" ]; then
			rm -rf -- "./$path" || fail "cannot remove $path"
			state=deleted
		fi
		;;
	*' blob '*) fail "cannot restore $path from $base" ;;
	*) state=skipped ;; # a folder: the patch cannot mean it
	esac
	encode "$path"
	say path "$state" "$word"
done <"$tmp/other"
while IFS= read -r path; do
	clear "$path"
	put "$path" || fail "cannot restore $path from $base"
	encode "$path"
	say path "$state" "$word"
done <"$tmp/back"

[ $# -gt 0 ] || { say 'done'; exit 0; }
(
	cd -- "$tmp/base" || exit 1
	export GIT_DIR="$gitdir" GIT_WORK_TREE="$tmp/base"
	top=$(pwd -P) index=$tmp/index
	backup
	chain 1 "$1" || restore
	printf '%s\n' "$won" >"$tmp/won"
) || exit 1
IFS= read -r won <"$tmp/won"
if [ -n "$won" ]; then
	while IFS= read -r path; do
		if [ -L "$tmp/base/$path" ] || [ -f "$tmp/base/$path" ]; then
			clear "$path"
			put "$path" || fail "cannot write $path"
		elif [ -L "./$path" ] || [ -f "./$path" ]; then
			rm -f -- "./$path" || fail "cannot remove $path"
		fi
	done <"$tmp/watch"
fi
announce
