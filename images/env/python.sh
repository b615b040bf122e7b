# An environment where official scripts look for conda's "testbed", and
# just enough of conda's activation for them.
mkdir -p /opt/miniconda3/bin /opt/miniconda3/envs /opt/evalrun
printf '%s\n' "$ACTIVATE" > /opt/miniconda3/bin/activate
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
# Build tools of the time the benchmarks were made: newer ones dropped
# pkg_resources, legacy metadata and --no-use-pep517.
case $version in
  2.7) pip=20.3.4 setuptools=44.1.1 wheel=0.37.1 ;;
  3.5) pip=20.3.4 setuptools=50.3.2 wheel=0.37.1 ;;
  3.6) pip=21.3.1 setuptools=59.6.0 wheel=0.37.1 ;;
  3.7) pip=24.0 setuptools=68.0.0 wheel=0.42.0 ;;
  3.13|3.14) pip=24.3.1 setuptools=75.6.0 wheel=0.45.1 ;;
  *) pip=24.0 setuptools=68.2.2 wheel=0.42.0 ;;
esac
case $PYTHON in
  /usr/*) "$PYTHON" -m venv "$VENV" ;;
  *)
    # A prefix of its own, as conda's is, and not a virtual environment: some tools
    # (tox --current-env) follow the executable's links and would leave one. The
    # standard library stays where it is.
    home=$(dirname "$(dirname "$PYTHON")")
    mkdir -p "$VENV/bin" "$VENV/lib/python$version/site-packages"
    cp "$home/bin/python$version" "$VENV/bin/"
    for name in python "python${version%%.*}"; do ln -s "python$version" "$VENV/bin/$name"; done
    for entry in "$home/lib/python$version"/*; do
      [ "$(basename "$entry")" = site-packages ] || ln -s "$entry" "$VENV/lib/python$version/"
    done
    ln -s "$home/include" "$VENV/include"
    "$VENV/bin/python" -m ensurepip >/dev/null
    ;;
esac
"$VENV/bin/python" -m pip install -q --no-warn-script-location "pip==$pip" "setuptools==$setuptools" "wheel==$wheel"
# Isolated builds may choose any setuptools; keep them off those without pkg_resources.
echo 'setuptools<81' > /opt/evalrun/constraints.txt
"$VENV/bin/python" -m pip --version
