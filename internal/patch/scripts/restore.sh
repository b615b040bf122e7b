# Brings the files of the tests back to the base commit, then applies the test
# patch, if there is one: restore.sh [FILE]. Set above: base.
#
# Both are done in a folder of their own, which holds nothing but those files, with
# an index made of the base commit, and copied from there. So no .gitattributes of
# the model's changes what git writes, and a test patch that fails leaves no trace.

[ -n "$gitdir" ] || fail "$root is not a git repository"
git rev-parse --quiet --verify "$base^{commit}" >"$tmp/null" || fail "commit $base is not in the repository"

mkdir "$tmp/base" || fail 'cannot make a folder'
GIT_INDEX_FILE=$tmp/index git read-tree "$base" || fail "cannot read commit $base"
tr '\n' '\0' <"$tmp/watch" | (
	cd -- "$tmp/base" &&
		GIT_DIR=$gitdir GIT_WORK_TREE=$tmp/base GIT_INDEX_FILE=$tmp/index git checkout-index --quiet --force -z --stdin
)
sed "s,^,$base:," "$tmp/watch" | git cat-file --batch-check >"$tmp/types" || fail "cannot read commit $base"

# clear removes what stands in the way of the folders above a path.
clear() {
	rest=$1 dir=
	while :; do
		case $rest in */*) ;; *) return ;; esac
		dir=$dir${rest%%/*} rest=${rest#*/}
		if [ -L "./$dir" ] || { [ -e "./$dir" ] && [ ! -d "./$dir" ]; }; then
			rm -f -- "./$dir"
			say cleared "$(printf '%s' "$dir" | encode)"
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
	rm -rf -- "./$1"
	case $1 in */*) mkdir -p -- "./${1%/*}" || return ;; esac
	cp -dp -- "$tmp/base/$1" "./$1" && state=restored
}

# What does not exist at the base commit goes first: it may stand where a file or
# a folder of the base commit belongs.
exec 3<"$tmp/types"
: >"$tmp/back"
while IFS= read -r path && read -r type <&3; do
	clear "$path"
	case $type in
	*' missing')
		state=absent
		if [ -e "./$path" ] || [ -L "./$path" ]; then
			rm -rf -- "./$path" || fail "cannot remove $path"
			state=deleted
		fi
		say path "$state" "$(printf '%s' "$path" | encode)"
		;;
	*' blob '*) printf '%s\n' "$path" >>"$tmp/back" ;;
	*) say path skipped "$(printf '%s' "$path" | encode)" ;; # a folder: the patch cannot mean it
	esac
done <"$tmp/watch"
while IFS= read -r path; do
	clear "$path"
	put "$path" || fail "cannot restore $path from $base"
	say path "$state" "$(printf '%s' "$path" | encode)"
done <"$tmp/back"

[ $# -gt 0 ] || { say 'done'; exit 0; }
(
	cd -- "$tmp/base" || exit 1
	export GIT_DIR="$gitdir" GIT_WORK_TREE="$tmp/base"
	top=$(pwd -P) index=$tmp/index
	backup
	chain 1 "$1" || restore
	printf '%s' "$won" >"$tmp/won"
) || exit 1
won=$(cat "$tmp/won")
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
