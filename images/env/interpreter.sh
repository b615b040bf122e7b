# An interpreter built for another folder: tell the loader and the build
# settings where it lives now.
echo "$HOME_DIR/lib" > "/etc/ld.so.conf.d/evalrun-$(basename "$HOME_DIR").conf"
ldconfig
find "$HOME_DIR/lib" -name '_sysconfigdata*.py' -o -path '*/config*/Makefile' | while read -r f; do
  old=$(sed -n "s/^ *'prefix': '\(.*\)',\?$/\1/p; s/^prefix= *\(\/.*\)$/\1/p" "$f" | head -n 1)
  if [ -n "$old" ] && [ "$old" != "$HOME_DIR" ]; then sed -i "s#$old#$HOME_DIR#g" "$f"; fi
done
exe=$HOME_DIR/bin/python3
[ -x "$exe" ] || exe=$HOME_DIR/bin/python2
"$exe" - <<'END'
import sys
missing = []
for name in ("ssl", "sqlite3", "ctypes", "bz2", "zlib", "readline", "hashlib"):
    try:
        __import__(name)
    except ImportError as e:
        missing.append("%s (%s)" % (name, e))
if missing:
    sys.exit("evalrun: the interpreter does not work on this base; modules missing: " + ", ".join(missing))
print(sys.version)
END
