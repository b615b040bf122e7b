# Runs tasks, each in a shell of its own: sh tasks.sh TASK... POSIX sh; git and, for
# the last command, patch. Starting a process takes longer than most of what is done
# here, so what tasks have in common is done once, and by the shell where it can be.
# Set above: root. A task sets nonce, and the function lists, which writes into $tmp
#   watch    paths a command might write, one a line
#   spare    what a command may leave beside them (.rej, .orig)
#   created  paths that do not exist before the patch
# and then calls begin. Only lines that start with the nonce are its result. What
# commands say goes to files and comes back encoded, so that none of it can look
# like a result.

set -u
export LC_ALL=C PATCH_GET=0 GIT_TERMINAL_PROMPT=0 GIT_LITERAL_PATHSPECS=1 GIT_OPTIONAL_LOCKS=0 GIT_NO_REPLACE_OBJECTS=1
unset POSIXLY_CORRECT CDPATH GIT_INDEX_FILE

say() { printf '%s' "$nonce"; printf ' %s' "$@"; printf '\n'; }

# encode puts text into the form of a word: it sets word.
encode() {
	case $1 in
	'') word=- ;;
	*[!A-Za-z0-9_./+@,-]*) joined "$(printf '%s' "$1" | base64)" ;;
	*) word="=$1" ;;
	esac
}
joined() {
	word=
	for line in $1; do word=$word$line; done
}

# tell says the result VERB with words, each encoded.
tell() {
	verb=$1 words=
	shift
	for text; do
		encode "$text"
		words="$words $word"
	done
	say "$verb$words"
}
fail() {
	tell error "$1: $(tail -c 1000 "$tmp/err" 2>/dev/null)"
	exit 1
}

# excerpt sets word to the end of what a command has printed.
excerpt() { if [ -s "$tmp/out" ]; then joined "$(tail -c 4096 "$tmp/out" | base64)"; else word=-; fi; }

broken= tmp=/nonexistent shelf=
shelf=$(mktemp -d) && trap 'rm -rf -- "$shelf"' EXIT || broken='cannot make a temporary folder'
dirs= n=0
for task; do
	n=$((n + 1))
	dirs="$dirs $n $n/old $n/base"
done
# shellcheck disable=SC2086 # a list of words
[ -n "$broken" ] || (cd -- "$shelf" && mkdir home plain git git/refs git/objects $dirs) || broken='cannot make a folder'
[ -n "$broken" ] || exec 2>"$shelf/err" </dev/null
[ -n "$broken" ] || cd -- "$root" || broken="cannot enter $root"

# The checkout may belong to another user than the one who applies the patch. git
# before 2.31 takes the permission from a file only, and not from the repository.
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
gitdir= prefix= index= objects= format= top=
if [ -z "$broken" ]; then
	{
		printf '[safe]\n\tdirectory = *\n\tdirectory = "%s"\n' "$root"
		[ -z "${HOME:-}" ] || printf '[include]\n\tpath = "%s/.gitconfig"\n' "$HOME"
	} >"$shelf/home/.gitconfig"
	export XDG_CONFIG_HOME="${XDG_CONFIG_HOME:-${HOME:-}/.config}" HOME="$shelf/home"
	top=$(pwd -P)
	if where=$(git rev-parse --absolute-git-dir --show-prefix --git-path index --git-path objects --show-object-format); then
		{
			IFS= read -r gitdir
			IFS= read -r prefix
			IFS= read -r index
			IFS= read -r objects
			IFS= read -r format # older gits repeat the question
		} <<-end
			$where
		end
		# In a sub-folder of a repository git apply skips what it is given and exits 0.
		[ -z "$prefix" ] || broken="$root is not the root of its repository"
		[ -f "$index" ] || index=
	fi
fi

# begin makes a task ready, or ends it.
begin() {
	if [ -n "$broken" ]; then
		tmp=$shelf
		fail "$broken"
	fi
	exec 2>"$tmp/err"
	lists || fail 'cannot write the lists of paths'
	: >"$tmp/displaced"
}

# isolate has git read the objects from a repository of our own, so that settings,
# attributes, filters and hooks of the checkout and of the user count no more: code
# of the model may have written them, and git would run what they name.
isolate() {
	objects=$(cd -- "$objects" && pwd -P) || fail 'the repository has no objects'
	printf '[safe]\n\tdirectory = *\n' >"$shelf/plain/.gitconfig"
	export HOME="$shelf/plain" XDG_CONFIG_HOME="$shelf/plain" GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1
	printf 'ref: refs/heads/none\n' >"$shelf/git/HEAD"
	if [ "$format" = sha256 ]; then
		printf '[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n' >"$shelf/git/config"
	else
		printf '[core]\n\trepositoryformatversion = 0\n\tbare = true\n' >"$shelf/git/config"
	fi
	export GIT_DIR="$shelf/git" GIT_OBJECT_DIRECTORY="$objects"
	gitdir=$shelf/git
}

# parents goes through the folders above a path. One that is a link into the tree
# is followed, setting path to where the file really is; one that is a link out of
# it ends the script. Folders that do not exist are noted, to be removed again.
parents() {
	rest=$path dir=
	while :; do
		case $rest in */*) ;; *) return ;; esac
		dir=$dir${rest%%/*} rest=${rest#*/}
		if [ -L "./$dir" ]; then
			real=$(cd -P -- "./$dir" && pwd -P) || real=
			case $real/ in
			"$top"/*) ;;
			*) tell refused "$path" "$dir"; exit 1 ;;
			esac
			real=${real#"$top"}
			path=${real#/}${real:+/}$rest
			parents
			return
		fi
		[ -e "./$dir" ] || printf '%s\n' "$dir" >>"$tmp/folders"
		dir=$dir/
	done
}

# backup keeps everything on the lists as it is now.
backup() {
	kept=0
	: >"$tmp/folders" && : >"$tmp/keep" && : >"$tmp/real" && : >"$tmp/empty" && : >"$tmp/rejects"
	while IFS= read -r path; do
		parents
		remember
	done <"$tmp/watch"
	while IFS= read -r path; do
		parents
		[ -e "./$path" ] || printf '%s\n' "$path" >>"$tmp/rejects"
		remember
	done <"$tmp/spare"
	case $kept in
	0) ;;
	?)
		set --
		while IFS= read -r path; do set -- "$@" "$path"; done <"$tmp/keep"
		cp -dp --parents -- "$@" "$tmp/old"
		;;
	*) tr '\n' '\0' <"$tmp/keep" | xargs -0 sh -c 'cp -dp --parents -- "$@" "$0"' "$tmp/old" ;;
	esac || fail 'cannot make a backup'
}

remember() {
	printf './%s\n' "$path" >>"$tmp/real"
	if [ -L "./$path" ] || [ -f "./$path" ]; then
		printf './%s\n' "$path" >>"$tmp/keep"
		kept=$((kept + 1))
	elif [ -d "./$path" ]; then
		printf './%s\n' "$path" >>"$tmp/empty"
	fi
}

# restore brings everything on the lists back to what backup saw.
restore() {
	[ -s "$tmp/real" ] || return 0
	tr '\n' '\0' <"$tmp/real" | xargs -0 rm -f --
	# Files of before may be folders now, and new folders are left empty.
	{ sed 's,^,./,' "$tmp/folders"; cat "$tmp/real"; } | sort -ru | while IFS= read -r dir; do
		if [ -d "$dir" ] && [ ! -L "$dir" ]; then rmdir -- "$dir"; fi
	done
	while IFS= read -r dir; do
		[ -d "$dir" ] || mkdir -p -- "$dir" || fail "cannot restore $dir"
	done <"$tmp/empty"
	for kept in "$tmp"/old/* "$tmp"/old/.[!.]* "$tmp"/old/..?*; do
		if [ -e "$kept" ] || [ -L "$kept" ]; then
			cp -dpR -- "$kept" ./ || fail 'cannot restore what a failed command changed'
		fi
	done
}

# displace takes away untracked files that stand where the patch makes a file: a
# build left them, and the patch's version is the one that counts.
displace() {
	while IFS= read -r path; do
		if [ -L "./$path" ] || [ -f "./$path" ]; then
			[ -n "$gitdir" ] && git ls-files --error-unmatch -- "$path" >"$tmp/null" 2>&1 && continue
			rm -f -- "./$path"
			printf '%s\n' "$path" >>"$tmp/displaced"
		fi
	done <"$tmp/created"
}

# try runs one command on the state backup saw: try VARIANT NUMBER COMMAND...
# What applied the patch is left in won, to be announced when all is done.
first=yes won=
try() {
	variant=$1 number=$2
	shift 2
	if [ -z "$first" ]; then
		restore
		: >"$tmp/displaced"
		displace
	fi
	"$@" >"$tmp/out" 2>&1 </dev/null
	code=$?
	if [ "$code" -eq 0 ] && rejects; then
		echo 'it left rejected hunks' >>"$tmp/out"
		code=1
	fi
	excerpt
	say try "$variant" "$number" "$code" "$word"
	first=
	[ "$code" -eq 0 ] || return 1
	won="$variant $number"
}

announce() {
	if [ -z "$won" ]; then
		say failed
		return
	fi
	while IFS= read -r path; do tell displaced "$path"; done <"$tmp/displaced"
	say applied ${won% *} ${won#* }
}

rejects() {
	while IFS= read -r path; do
		[ -e "./$path" ] && return 0
	done <"$tmp/rejects"
	return 1
}

# threeway works on a copy of the index: the patch shows as unstaged afterwards,
# and a conflict leaves nothing staged behind. Times and inodes in an image's index
# are often not those of its files, hence the refresh.
threeway() {
	if [ -n "$index" ]; then
		cp -p -- "$index" "$tmp/index3" || return 1
		GIT_INDEX_FILE=$tmp/index3 git update-index -q --refresh
	fi
	GIT_INDEX_FILE=$tmp/index3 "$@"
}

# chain tries the commands in order: chain VARIANT FILE
chain() {
	try "$1" 1 git apply --verbose "$2" && return
	try "$1" 2 threeway git apply --verbose --3way "$2" && return
	try "$1" 3 git apply --verbose --reject "$2" && return
	try "$1" 4 patch --batch --forward --fuzz=5 -p1 --unified --no-backup-if-mismatch -i "$2"
}

n=0
for task; do
	n=$((n + 1))
	(
		tmp=$shelf/$n
		set --
		. "$task"
	)
done
