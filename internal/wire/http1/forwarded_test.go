package http1_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http1"
)

// trusts takes 10.0.0.0/8 and fd00::/8 for the networks of proxies.
func trusts(a netip.Addr) bool {
	return netip.MustParsePrefix("10.0.0.0/8").Contains(a) ||
		netip.MustParsePrefix("fd00::/8").Contains(a)
}

// origin reads the origin from the lines of a head, "client scheme host", with dashes for what is
// not said.
func origin(t testing.TB, standard bool, lines string) string {
	t.Helper()
	var h http1.Head
	raw := []byte("GET / HTTP/1.1\r\nHost: h\r\n" + lines + "\r\n\r\n")
	n, err := h.Parse(raw)
	if err != nil || n != len(raw) {
		return "no head"
	}
	o := h.XForwarded(raw, "X-Forwarded-For", trusts)
	if standard {
		o = h.Forwarded(raw, trusts)
	}
	show := []string{"-", "-", "-"}
	if o.Client.IsValid() {
		show[0] = o.Client.Addr().String()
		if o.Client.Port() != 0 {
			show[0] = o.Client.String()
		}
	}
	show[1] = []string{"-", "http", "https"}[o.Scheme]
	if o.Host.Len() > 0 {
		show[2] = string(o.Host.Of(raw))
	}
	return strings.Join(show, " ")
}

var forwardedHeads = []struct {
	standard         bool
	lines, want, why string
}{
	{false, "X: y", "- - -", "nothing is said"},
	{false, "X-Forwarded-For: 192.0.2.1", "192.0.2.1 - -", ""},
	{false, "x-forwarded-for:  192.0.2.1 ", "192.0.2.1 - -", "any case, any space"},
	{false, "X-Forwarded-For: 6.6.6.6, 192.0.2.1", "192.0.2.1 - -", "the left may be forged"},
	{false, "X-Forwarded-For: 6.6.6.6, 192.0.2.1, 10.0.0.9", "192.0.2.1 - -", "past a proxy"},
	{false, "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 10.0.0.9",
		"192.0.2.1 - -", "several lines are one list"},
	{false, "X-Forwarded-For: 10.1.1.1, 10.0.0.9", "10.1.1.1 - -", "all are proxies: the first"},
	{false, "X-Forwarded-For: 6.6.6.6, unknown", "- - -", "malformed: nothing left of it counts"},
	{false, "X-Forwarded-For: 6.6.6.6, unix:, 10.0.0.9", "10.0.0.9 - -", "what was reached stays"},
	{false, "X-Forwarded-For: 192.0.2.1,, ,", "192.0.2.1 - -", "empty elements"},
	{false, "X-Forwarded-For: ,", "- - -", ""},
	{false, "X-Forwarded-For:", "- - -", ""},
	{false, "X-Forwarded-For: 192.0.2.1:8080", "192.0.2.1:8080 - -", "some proxies add the port"},
	{false, "X-Forwarded-For: 2001:db8::1", "2001:db8::1 - -", ""},
	{false, "X-Forwarded-For: [2001:db8::1]", "2001:db8::1 - -", ""},
	{false, "X-Forwarded-For: [2001:db8::1]:80", "[2001:db8::1]:80 - -", ""},
	{false, "X-Forwarded-For: ::ffff:192.0.2.1", "192.0.2.1 - -", "mapped"},
	{false, "X-Forwarded-For: 6.6.6.6, ::ffff:10.0.0.1", "6.6.6.6 - -", "a mapped proxy"},
	{false, "X-Forwarded-For: fe80::1%eth0", "- - -", "a zone"},
	{false, "X-Forwarded-For: 192.0.2.256", "- - -", ""},
	{false, "X-Forwarded-For: 192.0.02.1", "- - -", ""},
	{false, "X-Forwarded-For: 192.0.2.1:", "- - -", ""},
	{false, "X-Forwarded-For: 192.0.2.1:65536", "- - -", ""},
	{false, "X-Forwarded-For: [192.0.2.1]", "- - -", ""},
	{false, "X-Forwarded-For: \"192.0.2.1\"", "- - -", ""},
	{false, "X-Forwarded-For: a.example", "- - -", "names are not looked up"},
	{false, "Forwarded: for=6.6.6.6", "- - -", "not what is asked for"},

	{false, "X-Forwarded-Proto: https\r\nX-Forwarded-Host: a.test:8443", "- https a.test:8443", ""},
	{false, "X-Forwarded-Proto: HTTP", "- http -", ""},
	{false, "X-Forwarded-Proto: wss", "- https -", "of a WebSocket"},
	{false, "X-Forwarded-Proto: ftp\r\nX-Forwarded-Host: a b", "- - -", "malformed"},
	{false, "X-Forwarded-Host: [::1]:80", "- - [::1]:80", ""},
	{false, "X-Forwarded-Host: :80", "- - -", "no name"},
	{false, "X-Forwarded-Host: evil.test/x", "- - -", ""},
	{false, "X-Forwarded-Proto: https, http", "- http -", "no addresses: the last"},
	{false, "X-Forwarded-For: 6.6.6.6, 192.0.2.1, 10.0.0.9\r\nX-Forwarded-Proto: http, https, http",
		"192.0.2.1 https -", "as many as addresses: that of the client"},
	{false, "X-Forwarded-For: 6.6.6.6, 192.0.2.1, 10.0.0.9\r\nX-Forwarded-Proto: http, https\r\n" +
		"X-Forwarded-Host: forged.test, b.test", "192.0.2.1 https b.test", "otherwise the last"},
	{false, "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https, http", "192.0.2.1 http -", ""},

	{true, "Forwarded: for=192.0.2.1;proto=https;host=a.test", "192.0.2.1 https a.test", ""},
	{true, "Forwarded: For=\"[2001:db8:cafe::17]:4711\"", "[2001:db8:cafe::17]:4711 - -", ""},
	{true, "Forwarded: for=192.0.2.1:80;by=203.0.113.43 ; PROTO = http", "- - -", "space around ="},
	{true, "Forwarded: for=6.6.6.6;host=evil.test, for=192.0.2.1;proto=https, for=10.0.0.9;proto=http",
		"192.0.2.1 https -", "scheme and host are those of the client's element"},
	{true, "Forwarded: for=6.6.6.6\r\nForwarded: for=192.0.2.1", "192.0.2.1 - -", ""},
	{true, "Forwarded: for=6.6.6.6, for=_hidden;proto=https", "- https -", "no address"},
	{true, "Forwarded: for=6.6.6.6, for=unknown", "- - -", ""},
	{true, "Forwarded: for=6.6.6.6, proto=https", "- https -", "no address"},
	{true, "Forwarded: for=\"192.0.2.1:_port\"", "192.0.2.1 - -", "an obfuscated port"},
	{true, "Forwarded: \", for=192.0.2.1", "192.0.2.1 - -",
		"an open quote of the client hides nothing"},
	{true, "Forwarded: for=\"6.6.6.6, for=192.0.2.1", "192.0.2.1 - -", ""},
	{true, "Forwarded: x=\"a, for=6.6.6.6\", for=192.0.2.1", "192.0.2.1 - -", ""},
	{true, "Forwarded: for=6.6.6.6, for=10.0.0.9;x=\"a,b;c\"", "6.6.6.6 - -", "separators in quotes"},
	{true, "Forwarded: host=\"a\\\",for=6.6.6.6;x=\\\"b\"", "- - -", "a backslash"},
	{true, "Forwarded: for=6.6.6.6;for=192.0.2.1", "- - -", "named twice"},
	{true, "Forwarded: for=6.6.6.6, for", "- - -", ""},
	{true, "Forwarded: for=6.6.6.6, =x", "- - -", ""},
	{true, "Forwarded: for=6.6.6.6, for=192.0.2.1;;proto=http;", "192.0.2.1 http -", "empty pairs"},
	{true, "Forwarded: for=\"", "- - -", ""},
	{true, "Forwarded: for=", "- - -", ""},
	{true, "X-Forwarded-For: 6.6.6.6", "- - -", "not what is asked for"},
}

func TestForwarded(t *testing.T) {
	for _, c := range forwardedHeads {
		if got := origin(t, c.standard, c.lines); got != c.want {
			t.Errorf("%q: got %s, want %s (%s)", c.lines, got, c.want, c.why)
		}
	}
}

func TestForwardedAllocates(t *testing.T) {
	raw := []byte("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 6.6.6.6, 2001:db8::1, 10.0.0.9\r\n" +
		"X-Forwarded-Proto: https\r\nForwarded: for=6.6.6.6, for=192.0.2.1;proto=https\r\n\r\n")
	var h http1.Head
	if _, err := h.Parse(raw); err != nil {
		t.Fatal(err)
	}
	inner := netip.MustParsePrefix("10.0.0.0/8")
	n := testing.AllocsPerRun(100, func() {
		h.XForwarded(raw, "X-Forwarded-For", inner.Contains)
		h.Forwarded(raw, inner.Contains)
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzForwarded: what a client sends cannot change what a proxy appends to it.
func FuzzForwarded(f *testing.F) {
	for _, c := range forwardedHeads {
		f.Add(c.lines, c.standard)
		_, value, _ := strings.Cut(c.lines, ":")
		f.Add(value, c.standard)
	}
	f.Fuzz(func(t *testing.T, text string, standard bool) {
		if strings.ContainsAny(text, "\r\n") {
			_ = origin(t, standard, text)
			return
		}
		name, hop, peer := "X-Forwarded-For", "192.0.2.1:7, 10.0.0.9", ""
		if standard {
			name, hop, peer = "Forwarded", "for=\"192.0.2.1:7\", for=10.0.0.9", ";"
		}
		for _, joint := range []string{", ", ",", "\r\n" + name + ": "} {
			got := origin(t, standard, fmt.Sprintf("%s: %s%s%s%s", name, text, joint, hop, peer))
			if got != "no head" && got != "192.0.2.1:7 - -" {
				t.Fatalf("behind %q: %s", text, got)
			}
		}
	})
}

// TestAppendAddr: it writes what netip does.
func TestAppendAddr(t *testing.T) {
	for _, text := range []string{"0.0.0.0", "1.20.255.100", "10.9.99.109", "255.255.255.255", "::1",
		"fe80::1%eth0",
		"::ffff:1.2.3.4"} {
		if got := string(http1.AppendAddr([]byte("a "), netip.MustParseAddr(text))); got != "a "+text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}
