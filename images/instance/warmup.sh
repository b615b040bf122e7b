# The tests a row names may not exist before its hidden ones are there, and Maven
# then stops short of fetching what runs them. Any other test of the module has
# it fetched; one is enough, however many the row runs one by one.
warmed=
any_test() {
  local module=. previous= arg name arguments=()
  for arg in "$@"; do
    case $previous in -pl|--projects) module=${arg%%,*} ;; esac
    previous=$arg
    case $arg in -Dtest=*) ;; *) arguments+=("$arg") ;; esac
  done
  case $warmed in *"|${arguments[*]}|"*) return 0 ;; esac
  warmed="$warmed|${arguments[*]}|"
  command "$@" && return
  name=$(grep -rlE '@Test|extends TestCase' --include='*Test.java' "$module" | sort | sed -n 1p)
  [ -z "$name" ] || command "${arguments[@]}" "-Dtest=$(basename "$name" .java)"
}
mvn() { any_test mvn "$@"; }
mvnd() { any_test mvnd "$@"; }
# What the install step changed in tracked files, such as a lock file, stays as
# it left it; what the tests change there does not.
git diff --binary "$BASE" > /opt/evalrun/installed.diff
(warmup) || true
cd /testbed
git checkout --quiet --force "$BASE"
[ ! -s /opt/evalrun/installed.diff ] || git apply --whitespace=nowarn /opt/evalrun/installed.diff
rm -f /opt/evalrun/installed.diff
