# Files from the module cache come without their executable bits.
chmod -R u+w /usr/local/go
find /usr/local/go/bin /usr/local/go/pkg/tool -type f -exec chmod 755 {} +
have=$(/usr/local/go/bin/go version | cut -d' ' -f3)
[ "$have" = "go$WANT" ] || { echo "evalrun: asked for go$WANT, got $have" >&2; exit 1; }
