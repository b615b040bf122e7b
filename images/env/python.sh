# A virtual environment where official scripts look for conda's "testbed", and
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
if [ "$version" = 2.7 ]; then
  "$PYTHON" -m ensurepip --user >/dev/null
  "$PYTHON" -m pip install -q --user "virtualenv==20.15.1"
  "$PYTHON" -m virtualenv -q "$VENV"
else
  "$PYTHON" -m venv "$VENV"
fi
"$VENV/bin/python" -m pip install -q --no-warn-script-location "pip==$pip" "setuptools==$setuptools" "wheel==$wheel"
# Isolated builds may choose any setuptools; keep them off those without pkg_resources.
echo 'setuptools<81' > /opt/evalrun/constraints.txt
# conda's prefix has python and python3; so has a virtual environment, but pythonX.Y of old ones may be missing.
[ -e "$VENV/bin/python" ] || ln -s python3 "$VENV/bin/python"
"$VENV/bin/python" -m pip --version
