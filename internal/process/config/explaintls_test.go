package config_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestExplainTLS: -u says which certificate a client is shown, and where that stands.
func TestExplainTLS(t *testing.T) {
	dir := tlsFolder(t, map[string]string{"a": "a.test *.a.test", "b": "b.test"})
	for _, row := range [][3]string{
		{"tls = true", "a.test", "tls: certificate a.pem (b.conf, line 3)"},
		{"tls = true", "x.a.test", "tls: certificate a.pem (b.conf, line 3)"},
		{"tls = true", "c.test", "tls: certificate a.pem (b.conf, line 3), which is not for that name"},
		{"tls = true\nstrict_sni = true", "c.test", "tls: turned away by strict_sni"},
		{pairB, "c.test", "tls: certificate b.pem (line 4), which is not for that name"},
		{"tls = { acme = true }\n[tls]\nacme = { domains = [\"c.test\"] }\n", "c.test",
			"tls: no certificate yet"},
	} {
		c, err := parseIn(t, dir, "[[listener]]\naddress = \"*:443\"\n"+row[0]+"\n",
			"[[site]]\nhost = \"a.test\"\n"+pairA+hello)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := c.Explain(&out, "https://"+row[1]+"/"); err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(out.String(), dir+string(filepath.Separator), ""); !strings.Contains(
			got, "  "+row[2]) {
			t.Errorf("%s, %s:\n%swant %s", row[0], row[1], got, row[2])
		}
	}
}
