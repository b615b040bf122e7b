# Leaves of every repository in the image only what its checkout stands on: HEAD,
# its ancestors, and the index. Names, remotes, reflogs, stashes, notes, worktrees
# and borrowed objects go; then what nothing names any more.
set -eu
export LC_ALL=C GIT_NO_REPLACE_OBJECTS=1 GIT_TERMINAL_PROMPT=0
export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' GIT_CONFIG_KEY_1=gc.auto GIT_CONFIG_VALUE_1=0
HOME=$(mktemp -d)
printf '[safe]\n\tdirectory = *\n' >"$HOME/.gitconfig"
export HOME
find / -xdev \( -path /proc -o -path /sys -o -path /dev \) -prune -o -type d -name objects -print 2>/dev/null |
	while IFS= read -r store; do
		if [ -d "$store/pack" ] || [ -d "$store/info" ]; then dirname -- "$store"; fi
	done | sort -u >"$HOME/stores"
while IFS= read -r dir; do
	export GIT_DIR="$dir"
	head=$(git rev-parse --verify --quiet HEAD) || continue
	git update-ref --no-deref HEAD "$head"
	# Objects that are borrowed are copied first, so that nothing is missing.
	git repack -a -d -q
	rm -f "$dir/objects/info/alternates" "$dir/info/grafts"
	git for-each-ref --format='delete %(refname)' | git update-ref --no-deref --stdin
	git remote | while IFS= read -r name; do git remote remove "$name" || true; done
	rm -rf "$dir/logs" "$dir/worktrees" "$dir/FETCH_HEAD" "$dir/ORIG_HEAD" "$dir/MERGE_HEAD" "$dir/CHERRY_PICK_HEAD" "$dir/packed-refs" "$dir/rr-cache"
	git repack -a -d -q
	git prune --expire=now
	rm -rf "$dir/objects/info/commit-graph" "$dir/objects/info/commit-graphs"
done <"$HOME/stores"
rm -rf "$HOME"
