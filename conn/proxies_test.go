package conn_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// whoIs answers with what the server believes of the client.
func whoIs(req *conn.Request, resp *conn.Response) int {
	scheme := "http"
	if req.Secure() {
		scheme = "https"
	}
	fmt.Fprintf(resp, "%v %s %s %t", req.RemoteAddr(), scheme, req.Host(), req.Layer().Proxied())
	return 200
}

func trusting(networks ...string) *conn.Proxies {
	p := new(conn.Proxies)
	for _, n := range networks {
		if n == "unix:" {
			p.UNIX = true
			continue
		}
		p.Networks = append(p.Networks, netip.MustParsePrefix(n))
	}
	return p
}

func only(p *conn.Proxies) map[string]*conn.Proxies { return map[string]*conn.Proxies{"": p} }

// who returns the answer of whoIs without the port of this process's end.
func who(c *client, text string) string {
	local := c.LocalAddr().String()
	return strings.Replace(text, local, "self", 1)
}

func TestTrustedProxies(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		scheme := "http"
		if m.TLS {
			scheme = "https"
		}
		s := start(t, m,
			conn.Config{Handler: whoIs, Proxies: only(trusting("127.0.0.2/32", "10.0.0.0/8"))})
		c := from(s, "127.0.0.2")
		stranger := from(s, "127.0.0.1")
		const forged = "X-Forwarded-For: 6.6.6.6, 192.0.2.1\r\nX-Forwarded-Proto: https\r\n" +
			"X-Forwarded-Host: front.test\r\nForwarded: for=7.7.7.7\r\n"
		for _, x := range []struct {
			c            *client
			fields, want string
		}{
			{c, "", "self " + scheme + " a true"},
			{c, forged, "192.0.2.1:0 https front.test true"},
			{c, "", "self " + scheme + " a true"}, // nothing is left of the last request
			{c, "X-Forwarded-Proto: http\r\n", "self http a true"},
			{c, "X-Forwarded-For: x\r\nX-Forwarded-Host: /\r\n", "self " + scheme + " a true"},
			{stranger, forged, "self " + scheme + " a false"},
		} {
			got := who(x.c, x.c.Do("GET", "GET / HTTP/1.1\r\nHost: a\r\n"+x.fields+"\r\n").Text)
			if got != x.want {
				t.Errorf("%q: got %q, want %q", x.fields, got, x.want)
			}
		}

		// The next request follows a new configuration, on the same connection.
		p := trusting("127.0.0.1/32")
		p.Standard = true
		s.Configure(conn.Config{Handler: whoIs, Proxies: only(p)})
		ask := "GET / HTTP/1.1\r\nHost: a\r\n" + forged + "\r\n"
		if got := who(c, c.Do("GET", ask).Text); got != "self "+scheme+" a false" {
			t.Errorf("no longer trusted: %q", got)
		}
		if got := who(stranger, stranger.Do("GET", ask).Text); got != "7.7.7.7:0 "+scheme+" a true" {
			t.Errorf("trusted now: %q", got)
		}

		p = trusting("127.0.0.1/32", "10.0.0.0/8")
		p.RealIP = true
		s.Configure(conn.Config{Handler: whoIs, Proxies: only(p)})
		for fields, want := range map[string]string{
			"X-Real-IP: 192.0.2.8\r\n":                        "192.0.2.8:0 https front.test true",
			"X-Real-IP: 6.6.6.6\r\nX-Real-IP: 10.0.0.1\r\n":   "10.0.0.1:0 https front.test true",
			"X-Real-IP: 6.6.6.6\r\nX-Real-IP: no address\r\n": "self https front.test true",
			"": "self https front.test true",
		} {
			ask := "GET / HTTP/1.1\r\nHost: a\r\n" + forged + fields + "\r\n"
			if got := who(stranger, stranger.Do("GET", ask).Text); got != want {
				t.Errorf("%q: got %q, want %q", fields, got, want)
			}
		}
	})
}

// TestProxiedScheme: a trusted proxy may pass on the scheme of its client by HTTP/2 in clear text.
// Others get 421, and the log says why.
func TestProxiedScheme(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{true, false} {
		network := "192.0.2.0/24"
		if trusted {
			network = "127.0.0.0/8"
		}
		secure := make(chan bool, 1)
		s := start(t, modes.HTTP2,
			conn.Config{Proxies: only(trusting(network)),
				Handler: func(req *conn.Request, w *conn.Response) int {
					secure <- req.Secure()
					return w.Text(200, "")
				}})
		r := dial2(t, s)
		want := "421"
		if trusted {
			want = "200"
		}
		for i, fields := range [][]string{nil, {"x-forwarded-proto", "https"},
			{"x-forwarded-proto", "http"}} {
			id := uint32(2*i + 1)
			r.head(id, http2.EndStream,
				append([]string{":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a"},
					fields...)...)
			if got := r.flush().until(http2.Headers); got != fmt.Sprintf("HEADERS %d %s", id, want) {
				t.Errorf("trusted %v, %v: %s", trusted, fields, got)
			} else if got == fmt.Sprintf("HEADERS %d 200", id) && <-secure != (i < 2) {
				t.Errorf("%v: secure is %v", fields, i >= 2)
			}
		}
		if said := strings.Count(s.Log.String(), "trust it"); trusted && said != 0 ||
			!trusted && said != 1 {
			t.Errorf("trusted %v: the log says\n%s", trusted, s.Log)
		}
	}
}

func TestTrustedProxyOnUnixSocket(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{false, true} {
		p := trusting("0.0.0.0/0", "::/0")
		p.UNIX = trusted
		s := start(t, modes.OverUNIX, conn.Config{Handler: whoIs, Proxies: only(p)})
		want := "invalid AddrPort http a false"
		if trusted {
			want = "192.0.2.1:0 http a true"
		}
		c := s.Dial()
		ask := "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
		if got := c.Do("GET", ask).Text; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The access log sees the client, too.
func TestProxiedInAccessLog(t *testing.T) {
	t.Parallel()
	log := make(remotes, 2)
	s := start(t, direct, conn.Config{Handler: whoIs, AccessLog: log,
		Proxies: only(trusting("127.0.0.0/8"))})
	c := s.Dial()
	c.Do("GET", "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1:77\r\n\r\n")
	c.Do("GET", "GET / HTTP/1.1\r\n\r\n") // refused, and so nothing is believed
	if got, own := [...]string{<-log,
		<-log}, c.LocalAddr().String(); got != [...]string{"192.0.2.1:77", own} {
		t.Errorf("got %v", got)
	}
}

// remotes gets the addresses of all entries.
type remotes chan string

func (r remotes) LogRequest(_ *loop.Loop, e *conn.AccessEntry) bool {
	r <- e.Remote.String()
	return true
}

func (r remotes) HasRoom(*loop.Loop, conn.Share) bool { return true }

// What trusted proxies say is read without allocation, and without a difference for others.
func TestProxiedAllocates(t *testing.T) {
	h := func(req *conn.Request, _ *conn.Response) int {
		if req.RemoteAddr().Port() == 0 {
			return 204
		}
		return 404
	}
	s := start(t, direct,
		conn.Config{Handler: h, Proxies: only(trusting("127.0.0.0/8", "10.0.0.0/8"))})
	fields := "X-Forwarded-For: 192.0.2.1, 10.0.0.1\r\nX-Forwarded-Proto: https\r\n" +
		"X-Forwarded-Host: front.test\r\n"
	with := s.Allocs("GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n")
	s.Configure(conn.Config{Handler: func(*conn.Request, *conn.Response) int { return 204 }})
	if without := s.Allocs(get); with > without+0.5 {
		t.Errorf("%v allocations, %v without proxies", with, without)
	}
}
