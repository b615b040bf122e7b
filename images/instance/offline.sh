mkdir -p /opt/evalrun /opt/wheelhouse
cat > /opt/evalrun/pip.conf <<'END'
[global]
no-index = true
find-links = /opt/wheelhouse
END
if command -v mvn >/dev/null; then
  mkdir -p /root/.m2
  [ -f /root/.m2/settings.xml ] || echo '<settings><offline>true</offline></settings>' > /root/.m2/settings.xml
fi
if [ -d /root/.gradle ] || [ -e /testbed/gradlew ]; then
  mkdir -p /root/.gradle/init.d
  echo 'startParameter.offline = true' > /root/.gradle/init.d/offline.gradle
fi
if command -v bundle >/dev/null; then bundle config set --global prefer_local true >/dev/null; fi
# Left-overs of the build must not reach the tests.
rm -rf /tmp/*
# Where this image is not the pinned one, one line each: read when it is built.
touch /opt/evalrun/deviations.txt
