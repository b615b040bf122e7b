chmod 755 /usr/local/node/bin/node /usr/local/node/lib/node_modules/npm/bin/*.js
have=$(/usr/local/node/bin/node --version)
case $have in
  v"$WANT"|v"$WANT".*) ;;
  *) echo "evalrun: asked for node $WANT, got $have" >&2; exit 1 ;;
esac
/usr/local/node/bin/node /usr/local/node/lib/node_modules/npm/bin/npm-cli.js --version
# Scripts choose a version with nvm; there is one, and it is on the path already.
mkdir -p /usr/local/nvm
echo 'nvm() { :; }' > /usr/local/nvm/nvm.sh
