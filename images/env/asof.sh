# as_of DATE ARGUMENTS: what "pip install ARGUMENTS" would take is held to the
# versions an index had at that date, as constraints of the steps that follow. The
# pip that knows dates is used for the question only: it builds differently.
as_of_ask() {
  env -u PIP_FIND_LINKS $python "$(echo $dir/pip-*.whl)/pip" install -q --dry-run --uploaded-prior-to "$date" --report $dir/report.json "$@" "${arguments[@]}"
}
as_of() {
  local date=$1 python=/opt/miniconda3/envs/testbed/bin/python dir=/tmp/as-of
  shift
  local arguments=("$@")
  rm -rf $dir
  mkdir -p $dir
  # An isolated build takes the build tools of the day, too; old ones may write a
  # version the new pip refuses, which the environment's own do not.
  if $python -m pip download -q --no-deps -d $dir 'pip>=26' && { as_of_ask || as_of_ask --no-build-isolation; } &&
    $python - $dir/report.json > $dir/constraints.txt <<'END'
import json, sys
with open(sys.argv[1]) as f:
    for item in json.load(f)["install"]:
        if not item.get("is_direct"):
            print("%s==%s" % (item["metadata"]["name"], item["metadata"]["version"]))
END
  then
    cat $dir/constraints.txt >> /opt/evalrun/constraints.txt
    echo "packages without a pinned version are those of $date" >> /opt/evalrun/deviations.txt
  else
    echo "packages without a pinned version could not be held to $date, and are the newest" >> /opt/evalrun/deviations.txt
  fi
  rm -rf $dir
}
