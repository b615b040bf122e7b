# conda itself, and the interpreter from the channels this machine has set up.
if [ -f /run/evalrun/condarc ]; then export CONDARC=/run/evalrun/condarc; fi
rm -rf /opt/miniconda3
bash /mnt/conda/installer.sh -b -p /opt/miniconda3 >/dev/null
mkdir -p /opt/evalrun
/opt/miniconda3/bin/conda create --quiet --yes --name testbed "python=$WANT" pip "setuptools<81" wheel >/dev/null
have=$("$VENV/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
case $WANT in
  "$have"|"$have".*) ;;
  *) echo "evalrun: conda was asked for python $WANT and gave $have" >&2; exit 1 ;;
esac
echo 'setuptools<81' > /opt/evalrun/constraints.txt
