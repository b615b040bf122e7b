rm -rf /testbed
cp -a /mnt/repository /testbed
chown -R root:root /testbed
cd /testbed
git config core.logAllRefUpdates false
git checkout --quiet --force --detach "$BASE"
# Submodules that could be had lie ready; the others are reported by name.
for path in ${SUBMODULES+"${SUBMODULES[@]}"}; do git submodule --quiet update --init -- "$path"; done
# A path that git lists but could not write would be graded as the model's deletion.
git diff --quiet HEAD || { echo "evalrun: the checkout is not complete:" >&2; git status --short | head -n 20 >&2; exit 1; }
