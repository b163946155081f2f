package proxy_test

import (
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

// heads starts an upstream that answers each request with its head.
func heads(t *testing.T) *origin {
	return start(t, func(p *originConn) {
		for head := p.head(); head != ""; head = p.head() {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(head), head)
		}
	})
}

// about returns the lines of a head that tell of the client.
func about(head string) string {
	var lines []string
	for line := range strings.SplitSeq(head, "\r\n") {
		if strings.HasPrefix(line, "X-Forwarded-") || strings.HasPrefix(line, "X-Real-") ||
			strings.HasPrefix(line, "Forwarded:") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// TestForwarded: what the upstream is told of the client, by the fields that the configuration
// lists. That is of https as well, from a client over TLS and from one whose proxy says so.
func TestForwarded(t *testing.T) {
	o := heads(t)
	all := []string{"x-real-ip", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host",
		"X-Forwarded-Port", "X-Forwarded-Prefix", "Forwarded"}
	const usual = "X-Forwarded-For: 127.0.0.1\nX-Forwarded-Proto: http\nX-Forwarded-Host: test.example"
	const standard = `Forwarded: for=127.0.0.1;proto=http;host="test.example"`
	const forged = "X-Forwarded-For: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded-Port: 6\r\n" +
		"X-Forwarded-Prefix: /6\r\nForwarded: for=6.6.6.6\r\n"
	for _, tt := range []struct {
		name   string
		change func(*proxy.Settings)
		want   string
	}{
		{"usual", nil, usual + "\n" + standard},
		{"all", func(s *proxy.Settings) { s.Forwarded.Forwarded = all },
			usual + "\nX-Forwarded-Port: 80\nX-Real-IP: 127.0.0.1\n" + standard},
		{"all with a prefix", func(s *proxy.Settings) {
			s.Forwarded.Forwarded, s.StripPrefix = all, true
		},
			usual + "\nX-Forwarded-Port: 80\nX-Forwarded-Prefix: /a%20b\nX-Real-IP: 127.0.0.1\n" + standard},
		{"prefix", func(s *proxy.Settings) { s.ReplacePrefix = "/v1" },
			usual + "\nX-Forwarded-Prefix: /a%20b\n" + standard},
		{"none", func(s *proxy.Settings) { s.Forwarded.Forwarded = []string{} }, ""},
		{"one", func(s *proxy.Settings) { s.Forwarded.Forwarded = []string{"X-Real-IP"} },
			"X-Real-IP: 127.0.0.1"},
		// What the configuration says is not said a second time.
		{"own", func(s *proxy.Settings) {
			s.Forwarded.Forwarded = []string{"X-Real-IP", "X-Forwarded-Port"}
			s.RequestHeaders = map[string]string{"x-forwarded-port": "1", "X-Real-IP": ""}
		}, ""},
	} {
		f := serve(t, modes.Direct, "/a b", []string{o.addr}, tt.change)
		if got := about(f.ask("GET /a%20b/x", forged, "").body); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
		want := strings.NewReplacer("Proto: http", "Proto: https", "proto=http", "proto=https",
			"Port: 80", "Port: 443").
			Replace(tt.want)
		overTLS := &front{Server: module.Start(t, modes.OverTLS, "/a b", f.handler)}
		if got := about(overTLS.ask("GET /a%20b/x", forged, "").body); got != want {
			t.Errorf("%s, over TLS: got\n%s\nwant\n%s", tt.name, got, want)
		}
		want = strings.ReplaceAll(want, "127.0.0.1", "192.0.2.1")
		behind := &front{Server: server.Start(t, modes.Direct, conn.Config{Handler: f.handler,
			Proxies: map[string]*conn.Proxies{
				"": {Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}})}
		if got := about(behind.ask("GET /a%20b/x",
			"X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n", "").body); got != want {
			t.Errorf("%s, behind a proxy: got\n%s\nwant\n%s", tt.name, got, want)
		}
	}
	got := refused(t, func(s *proxy.Settings) { s.Forwarded.Forwarded = []string{"X-Forwarded-By"} })
	if want := "forwarded: expected some of X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host, " +
		"X-Forwarded-Port, X-Forwarded-Prefix, X-Real-IP, Forwarded, not \"X-Forwarded-By\""; got !=
		want {
		t.Error(got)
	}
}

// TestForwardedChain: where proxies are in front, they are listed behind the client. What stands to
// the left of the client may be invented, and does not go on.
func TestForwardedChain(t *testing.T) {
	o := heads(t)
	for _, standard := range []bool{false, true} {
		for _, chain := range []bool{false, true} {
			env := handlers.Env{Dir: t.TempDir(), Prefix: "/",
				Logger: slog.New(slog.NewTextHandler(new(logtext.Buffer), nil))}
			h := must.Get(module.Build(t, proxy.Register, "proxy", env, func(s *proxy.Settings) {
				s.Address, s.ForwardedChain, s.MaxIdle = []string{o.addr}, chain, 0
			}))(t)
			srv := server.Start(t, modes.Direct, conn.Config{Handler: h,
				Proxies: map[string]*conn.Proxies{"": {Standard: standard, Networks: []netip.Prefix{
					netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")}}}})
			rows := map[string][2]string{ // X-Forwarded-For, and Forwarded
				"": {"127.0.0.1", "for=127.0.0.1;proto=http;host=\"a\""},
				"192.0.2.1": {"192.0.2.1, 127.0.0.1",
					"for=192.0.2.1;proto=http;host=\"a\", for=127.0.0.1"},
				"6.6.6.6, 192.0.2.1, 10.0.0.1, 10.0.0.2": {"192.0.2.1, 10.0.0.1, 10.0.0.2, 127.0.0.1",
					"for=192.0.2.1;proto=http;host=\"a\", for=10.0.0.1, for=10.0.0.2, for=127.0.0.1"},
				"x, 10.0.0.2":  {"10.0.0.2, 127.0.0.1", "for=10.0.0.2;proto=http;host=\"a\", for=127.0.0.1"},
				"192.0.2.1, x": {"127.0.0.1", "for=127.0.0.1;proto=http;host=\"a\""},
				"2001:db8::1": {"2001:db8::1, 127.0.0.1",
					"for=\"[2001:db8::1]\";proto=http;host=\"a\", for=127.0.0.1"},
			}
			for list, want := range rows {
				field := ""
				switch {
				case standard && list != "":
					field = "X-Forwarded-For: 6.6.6.6\r\nForwarded: "
					var elements []string
					for e := range strings.SplitSeq(list, ", ") {
						elements = append(elements, `for="`+bracketed(e)+`"`)
					}
					field += strings.Join(elements, ", ") + "\r\n"
				case list != "":
					field = "Forwarded: for=6.6.6.6\r\nX-Forwarded-For: " + list + "\r\n"
				}
				if !chain {
					want[0], _, _ = strings.Cut(want[0], ",")
					want[1], _, _ = strings.Cut(want[1], ",")
				}
				c := srv.Dial()
				c.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n" + field + "\r\n"))
				head := read(c.R, "GET").body
				c.Close()
				for _, line := range []string{"X-Forwarded-For: " + want[0], "Forwarded: " + want[1]} {
					if !strings.Contains(head, "\r\n"+line+"\r\n") {
						t.Errorf("standard %t, chain %t, %q: no %q in\n%s", standard, chain, list, line, about(head))
					}
				}
			}
		}
	}
}

func bracketed(node string) string {
	if ip := net.ParseIP(node); ip != nil && ip.To4() == nil {
		return "[" + node + "]"
	}
	return node
}

// TestCopiedRealIP: what the server has put into X-Real-IP, as copy_headers of auth does, goes out
// in the place of what forwarded says, and not beside it. What a client says there does not.
func TestCopiedRealIP(t *testing.T) {
	o := heads(t)
	f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
		s.Forwarded.Forwarded = []string{"X-Real-IP"}
	})
	for want, by := range map[string][]string{"X-Real-IP: 127.0.0.1": nil,
		"X-Real-IP: 192.0.2.9": {"192.0.2.9"}} {
		s := module.Start(t, modes.Direct, "/", func(req *conn.Request, resp *conn.Response) int {
			req.Layer().ReplaceHeader("X-Real-IP", by...)
			return f.handler(req, resp)
		})
		if got := about(s.Request("GET /", []string{"X-Real-IP: 6.6.6.6"}, "").Text); got != want {
			t.Errorf("%q: %s, want %s", by, got, want)
		}
	}
}
