# An interpreter built for another folder: tell the loader and the build
# settings where it lives now.
echo "$HOME_DIR/lib" > "/etc/ld.so.conf.d/evalrun-$(basename "$HOME_DIR").conf"
ldconfig
find "$HOME_DIR/lib" -name '_sysconfigdata*.py' -o -path '*/config-*/Makefile' | while read -r f; do
  old=$(sed -n "s/^ *'LIBDIR': *'\(.*\)\/lib',\?$/\1/p; s/^LIBDIR= *\$(exec_prefix)\/lib$//p" "$f" | head -n 1)
  if [ -n "$old" ] && [ "$old" != "$HOME_DIR" ]; then sed -i "s#$old#$HOME_DIR#g" "$f"; fi
done
exe=$(ls "$HOME_DIR"/bin/python3 "$HOME_DIR"/bin/python2 2>/dev/null | head -n 1)
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
