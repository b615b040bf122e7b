# Applies the patch: the files given as arguments are its variants, in order.

backup
variant=0
for file; do
	variant=$((variant + 1))
	if chain "$variant" "$file"; then
		announce
		exit 0
	fi
done
restore
: >"$tmp/displaced"
# A patch whose reverse applies is already there.
variant=0
for file; do
	variant=$((variant + 1))
	git apply --check --reverse "$file" >"$tmp/out" 2>&1
	code=$?
	excerpt
	say try "$variant" 5 "$code" "$word"
	if [ "$code" -eq 0 ]; then
		won="$variant 5"
		break
	fi
done
announce
