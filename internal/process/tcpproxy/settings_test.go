package tcpproxy_test

import (
	"strings"
	"testing"
	"time"
)

// TestSettings: what is wrong is named, with its line.
func TestSettings(t *testing.T) {
	t.Parallel()
	s := &running{t: t, folder: t.TempDir()}
	for _, test := range []struct{ text, want string }{
		{"[[stream]]", `address: missing`},
		{"[[stream]]\nLISTEN", `route: missing`},
		{"[[stream]]\nLISTEN\n[[stream.route]]", `address: missing: where the upstream listens`},
		{one + "'x'", `expected unix:/path or host:port`},
		{one + "'https://x'", `expected a port`},
		{one + "'tls://x'", `expected unix:/path or host:port`},
		{one + "'127.0.0.1:1 backup'", `every address is a backup`},
		{one + "'127.0.0.1:1'\ntls = { insecure = true }", `no address begins with "tls://"`},
		{one + "'127.0.0.1:1'\nbalance = 'x'", `balance`},
		{one + "'127.0.0.1:1'\nproxy_protocol = 'v3'", `proxy_protocol`},
		{one + "'127.0.0.1:1'\nhash = '{name}'", `hash: it has no effect without balance = "hash"`},
		{one + "'127.0.0.1:1'\nbalance = 'hash'", `hash: "": expected a text with placeholders (known: `},
		{one + "'127.0.0.1:1'\nbalance = 'hash'\nhash = '{uri}'", "hash: "},
		{one + "'127.0.0.1:1'\nmax_fails = 0", "max_fails: must be above 0, or -1"},
		{strings.Replace(one, "LOG", "allow = []", 1) + "'127.0.0.1:1'", "allow: expected at least one"},
		{strings.Replace(one, "LOG", "deny = 'x'", 1) + "'127.0.0.1:1'", "deny: expected a network"},
		{strings.Replace(one, "LOG", "allow = '10.1.0.0/16'\ndeny = '10.0.0.0/8'", 1) + "'127.0.0.1:1'",
			"allow: 10.1.0.0/16 has no effect: deny has 10.0.0.0/8, and counts"},
		{one + "'127.0.0.1:1'\nsource = '192.0.2.1'", "source: 192.0.2.1 is no address of this machine"},
		{one + "'unix:/x'\nsource = '127.0.0.1'", "source has no effect"},
		{one + "'127.0.0.1:1'\nhealth = { interval = '1s', rises = 0 }", "rises"},
		{one + "'127.0.0.1:1'\nhealth = { rises = 1 }", "health: missing: interval"},
		{one + "'127.0.0.1:1'\nhealth = { timeout = '1s' }", "health: missing: interval"},
		{one + "'127.0.0.1:1'\n[[stream.route]]\naddress = '127.0.0.1:2'", "another route has no sni"},
		{one + "'127.0.0.1:1'\nsni = []", "expected at least one name"},
		{one + "'127.0.0.1:1'\nsni = ['a.example', 'A.example']", `"A.example": named twice`},
		{one + "'127.0.0.1:1'\nsni = 'a*.example'", "expected the name of a host"},
		{one + "'127.0.0.1:1'\nsni = '192.0.2.1'", "expected the name of a host"},
		{one + "'127.0.0.1:1'\nsni = 'a.example.'", "expected the name of a host"},
		{strings.Replace(one, "LOG", "proxy_protocol = true", 1) + "'127.0.0.1:1'",
			"needs trusted_proxies"},
		{strings.Replace(one, "LOG", "trusted_proxies = '::1'", 1) + "'127.0.0.1:1'",
			"needs proxy_protocol"},
		{strings.Replace(one, "LOG", "trusted_proxies = 'x'\nproxy_protocol = true", 1) + "'127.0.0.1:1'",
			"expected a network"},
		{strings.Replace(one, "LOG", "idle_timeout = '0s'", 1) + "'127.0.0.1:1'", "idle_timeout"},
		{strings.Replace(one, "LOG", "client_ca = 'x'", 1) + "'127.0.0.1:1'", "needs the key tls"},
		{strings.Replace(one, "LOG", "access_log = { path = 'l', format = 'x' }", 1) + "'127.0.0.1:1'",
			`expected "json" or a text with placeholders`},
		{strings.Replace(one, "LOG", "access_log = { path = 'l', format = '{user}' }", 1) +
			"'127.0.0.1:1'", "{user}"},
		{strings.Replace(one, "LOG", "access_log = {}", 1) + "'127.0.0.1:1'",
			"missing; expected the path"},
		{"[[listener]]\nLISTEN\n" + one + "'127.0.0.1:1'", "is listened to twice"},
		{strings.Replace(one, "LOG", "colour = 1", 1) + "'127.0.0.1:1'", "unknown key"},
	} {
		_, err := s.parse(test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\n%v\nwant %s", test.text, err, test.want)
		}
	}
	for _, health := range []string{"{}", "{ interval = '0s', rises = 1 }"} {
		if _, err := s.parse(one + "'127.0.0.1:1'\nhealth = " + health); err != nil {
			t.Errorf("health = %s: %v", health, err)
		}
	}
}

// TestFormats: lines of the access log in the other formats.
func TestFormats(t *testing.T) {
	t.Parallel()
	up := upstream(t, echo("hello"))
	// format; what the first line has; the ends of the lines of two connections
	for _, row := range [][4]string{
		{"json", `"bytes_in":2,"bytes":7,`, `,"result":"complete","tls_version":""}`,
			`,"result":"max time","key":"max_time","limit":"5m0s","tls_version":""}`},
		{"{remote} {port} {bytes_in}/{bytes} {upstream} {connect} [{time_iso8601}] {tls_version} " +
			"{result} {key} {limit}", "2/7 " + up + " 0.", " - complete - -", " - max time max_time 5m0s"},
	} {
		keys := "access_log = { path = 'log', format = '" + row[0] + "' }\nmax_time = '5m'"
		s := serve(t, strings.Replace(one, "LOG", keys, 1)+"'"+up+"'")
		c := s.dial()
		says(t, c, "hi")
		_ = c.CloseWrite()
		wantsEnd(t, c, "hellohi")
		line := s.log(1)[0]
		if !strings.Contains(line, row[1]) || !strings.HasSuffix(line, row[2]) {
			t.Errorf("%s\nwant %s, and %s at the end", line, row[1], row[2])
		}
		c = s.dial()
		wants(t, c, "hello")
		s.settle()
		s.skip(5*time.Minute + time.Second)
		wantsEnd(t, c, "")
		if line := s.log(2)[1]; !strings.HasSuffix(line, row[3]) {
			t.Errorf("%s\nwant %s at the end", line, row[3])
		}
	}
}
