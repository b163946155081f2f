package server_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestACMESettings: what is wrong with the settings is said, with its place.
func TestACMESettings(t *testing.T) {
	const listener = "[[listener]]\naddress = \"*:443\"\ntls = { acme = true }\n"
	long := strings.Repeat("a", 64)
	for _, test := range []struct{ name, text, want string }{
		{"no name", "[tls]\nacme = {}\n" + listener,
			"t.conf:2: tls.acme.domains: expected the names that certificates are for"},
		{"no letter of ASCII", "[tls]\nacme = { domains = \"\u212a.test\" }\n" + listener,
			"t.conf:2: tls.acme.domains: \"\u212a.test\": expected a name such as example.org; what is " +
				"not ASCII is written xn--"},
		{"an empty list", "[tls.acme]\ndomains = []\n" + listener,
			"t.conf:2: tls.acme.domains: expected the names that certificates are for"},
		{"addresses", "[tls.acme]\ndomains = [\"192.0.2.1\", \"[::1]\"]\n" + listener,
			"t.conf:2: tls.acme.domains: \"192.0.2.1\": expected a name, and no address\n" +
				"t.conf:2: tls.acme.domains: \"[::1]\": expected a name, and no address"},
		{"a wildcard", "[tls.acme]\ndomains = \"*.example.org\"\n" + listener,
			"t.conf:2: tls.acme.domains: \"*.example.org\": a wildcard needs another challenge, dns-01, " +
				"and so the key dns; expected the names one by one"},
		{"no names at all", "[tls.acme]\ndomains = [\"a..b\", \"-a\", \"b/c\", \"" + long +
			"\", \"\", \"bücher.example\"]\n" + listener,
			"is not ASCII is written xn--"},
		{"twice", "[tls.acme]\ndomains = [\"a.example\", \"A.example\"]\n" + listener,
			"t.conf:2: tls.acme.domains: \"A.example\" is named twice"},
		{"no address for letters",
			"[tls.acme]\ndomains = \"a.example\"\nemail = \"A <a@b>\"\n" + listener,
			"t.conf:3: tls.acme.email: expected an address such as admin@example.org, found \"A <a@b>\""},
		{"an empty one", "[tls.acme]\ndomains = \"a.example\"\nemail = \"\"\n" + listener,
			"t.conf:3: tls.acme.email: expected an address such as admin@example.org, found \"\""},
		{"http", "[tls.acme]\ndomains = \"a.example\"\ndirectory = \"http://127.0.0.1/dir\"\n" + listener,
			"t.conf:3: tls.acme.directory: expected a URL with https:// (RFC 8555 section 6.1), such as " +
				"https://acme-v02.api.letsencrypt.org/directory"},
		{"no folder", "[tls.acme]\ndomains = \"a.example\"\ncache = \"/proc/none/at/all\"\n" + listener,
			"t.conf:3: tls.acme.cache: create a file in /proc/none/at: no such file or directory"},
		{"a file", "[tls.acme]\ndomains = \"a.example\"\ncache = \"/etc/passwd\"\n" + listener,
			"t.conf:3: tls.acme.cache: create a file in " +
				"/etc/passwd/acme-v02.api.letsencrypt.org-directory: not a directory"},
		{"no listener", "[tls.acme]\ndomains = \"a.example\"\n[[listener]]\naddress = \"*:80\"\n",
			"t.conf:1: tls.acme: no [[listener]] has tls = { acme = true }, and it takes one to obtain " +
				"certificates"},
		{"only a listener", listener,
			"t.conf:3: listener.tls.acme: needs acme = { domains = [...] } in the table [tls]"},
		{"a file as well",
			"[tls.acme]\ndomains = \"a.example\"\n[[listener]]\naddress = \"*:443\"\ntls = { acme = true, " +
				"key = \"a.key\" }\n",
			"t.conf:5: listener.tls.acme: stands in the place of cert and key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			_, err := source().Parse("t.conf", test.text)
			if got := fmt.Sprint(err); !strings.Contains(got, test.want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
			if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
				t.Errorf("a check has made %v, %v", left, err)
			}
		})
	}
}
