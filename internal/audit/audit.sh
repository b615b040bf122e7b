# Lists what the git repositories of an image know besides the checkout: audit.sh
# NONCE BASE. Only lines that start with the nonce are the result. Nothing is
# changed.
nonce=$1 base=$2
export LC_ALL=C GIT_NO_REPLACE_OBJECTS=1 GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
HOME=$(mktemp -d) || exit 1
printf '[safe]\n\tdirectory = *\n' >"$HOME/.gitconfig"
export HOME
say() { printf '%s' "$nonce"; printf ' %s' "$@"; printf '\n'; }
encode() { base64 | tr -d '\n'; }
command -v git >/dev/null 2>&1 || { say nogit; exit 0; }

# A store of objects is a repository, whatever its name and wherever it lies.
# Worktrees and submodules have theirs below .git, alternates anywhere.
find / -xdev \( -path /proc -o -path /sys -o -path /dev \) -prune -o -type d -name objects -print 2>/dev/null |
	while IFS= read -r store; do
		[ -d "$store/pack" ] || [ -d "$store/info" ] || continue
		dirname -- "$store"
	done | sort -u | head -n 200 >"$HOME/stores"

# When base_commit was made, and its files: another repository that has many of them
# is a copy of the project, even if its history is cut off after base_commit.
born=0
: >"$HOME/files"
while IFS= read -r dir; do
	GIT_DIR=$dir
	export GIT_DIR
	when=$(git show -s --format=%ct "$base" 2>/dev/null) || continue
	born=$when
	git ls-tree -r "$base" 2>/dev/null | awk '$2 == "blob" && $3 !~ /^e69de29bb2d1d6434b8b29ae775ad8c2e48c5391$/ {print $3}' | sort -u >"$HOME/files"
	break
done <"$HOME/stores"
files=$(wc -l <"$HOME/files")

while IFS= read -r dir; do
	GIT_DIR=$dir
	export GIT_DIR
	name=$(printf '%s' "$dir" | encode)
	git cat-file --batch-all-objects --batch-check='%(objecttype) %(objectname)' 2>/dev/null | sed -n 's/^commit //p' | sort >"$HOME/all"
	[ -s "$HOME/all" ] || continue
	git rev-list HEAD 2>/dev/null | sort >"$HOME/past"
	head=$(git rev-parse --verify --quiet HEAD || echo none)
	at=$(git show -s --format=%ct "$base" 2>/dev/null || echo 0)
	have=no ahead=0
	if [ "$at" != 0 ]; then
		have=yes
		ahead=$(git rev-list --count "$base..HEAD" 2>/dev/null || echo 0)
	elif [ "$files" -gt 0 ]; then
		common=$(git cat-file --batch-all-objects --batch-check='%(objectname)' 2>/dev/null | sort | comm -12 - "$HOME/files" | wc -l)
		if [ $((common * 5)) -ge "$files" ]; then
			have=copy at=$born
			: >"$HOME/past" # its HEAD is not the checkout's
		fi
	fi
	comm -23 "$HOME/all" "$HOME/past" >"$HOME/others"
	git show -s --format='%ct %H' --stdin <"$HOME/others" 2>/dev/null | awk -v at="$at" '$1 > at {print $2}' >"$HOME/later"
	say store "$name" "$have" "$head" "$ahead" "$(wc -l <"$HOME/all" | tr -d ' ')" "$(wc -l <"$HOME/others" | tr -d ' ')" "$(wc -l <"$HOME/later" | tr -d ' ')" \
		"$(head -n 3 "$HOME/later" | tr '\n' ',')-"
done <"$HOME/stores"
say 'done'
