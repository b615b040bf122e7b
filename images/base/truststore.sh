# Java reads certificates from a store of its own kind only. It lies in memory:
# what this machine trusts is not part of the layer.
if [ -f /run/evalrun/ca.crt ] && command -v javac >/dev/null; then
  cat > /dev/shm/Trust.java <<'END'
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;

class Trust {
  public static void main(String[] args) throws Exception {
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, null);
    int n = 0;
    try (FileInputStream in = new FileInputStream(args[0])) {
      for (Certificate c : CertificateFactory.getInstance("X.509").generateCertificates(in))
        store.setCertificateEntry("ca" + n++, c);
    }
    try (FileOutputStream out = new FileOutputStream(args[1])) {
      store.store(out, "changeit".toCharArray());
    }
  }
}
END
  if java /dev/shm/Trust.java /run/evalrun/ca.crt /dev/shm/trust.p12; then
    export JAVA_TOOL_OPTIONS="-Djavax.net.ssl.trustStore=/dev/shm/trust.p12 -Djavax.net.ssl.trustStorePassword=changeit"
  else
    echo "evalrun: Java cannot be told this machine's certificates, and goes on with its own" >&2
  fi
fi
