mkdir -p /opt/evalrun
rm -rf /testbed
cp -a /mnt/repository /testbed
chown -R root:root /testbed
cd /testbed
git config core.logAllRefUpdates false
git checkout --quiet --force --detach "$BASE"
# Submodules that could be had lie ready; the others are reported by name.
set -- ${SUBMODULES+"${SUBMODULES[@]}"}
while [ $# -gt 0 ]; do git -C "$1" submodule --quiet update --init -- "$2"; shift 2; done
# A path that git lists but could not write would be graded as the model's deletion.
git diff --quiet HEAD || { echo "evalrun: the checkout is not complete:" >&2; git status --short | head -n 20 >&2; exit 1; }
