package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/template"
)

// known is how an error lists the placeholders.
var known = "(known: " + template.List(placeholder.Names) + ")"

// TestRequest: what an upstream is asked.
func TestRequest(t *testing.T) {
	o := start(t, func(p *originConn) {
		for {
			head := p.head()
			if head == "" {
				return
			}
			body := make([]byte, 0)
			if strings.Contains(head, "Content-Length: 4") {
				body = make([]byte, 4)
				io.ReadFull(p.r, body)
			}
			head += string(body)
			p.say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(head), head)
		}
	})
	forwarded := "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n" +
		"X-Forwarded-Host: test.example\r\n" +
		"Forwarded: for=127.0.0.1;proto=http;host=\"test.example\"\r\n"
	stripped := strings.Replace(forwarded, "\r\nForwarded: ",
		"\r\nX-Forwarded-Prefix: /api\r\nForwarded: ", 1)
	const via = "Via: 1.1 lwango\r\n"
	host := "Host: test.example\r\n"
	for _, tt := range []struct {
		line, fields, body string
		change             func(*proxy.Settings)
		want               string
	}{
		{"GET /api/x?y=1", "", "", nil,
			"GET /api/x?y=1 HTTP/1.1\r\n" + host + forwarded + via + "\r\n"},
		{"POST /api", "Content-Length: 4\r\nX-A: b\r\n", "body", nil,
			"POST /api HTTP/1.1\r\n" + host + "X-A: b\r\n" + forwarded + via +
				"Content-Length: 4\r\n\r\nbody"},
		{"POST /api", "Transfer-Encoding: chunked\r\n", "4\r\nbody\r\n0\r\n\r\n", nil,
			"POST /api HTTP/1.1\r\n" + host + forwarded + via + "Content-Length: 4\r\n\r\nbody"},
		{"POST /api", "", "", nil,
			"POST /api HTTP/1.1\r\n" + host + forwarded + via + "Content-Length: 0\r\n\r\n"},
		// What is about the connection stays here, and what says who the client is is ours to say.
		{"GET /api", "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nTE: gzip\r\n" +
			"Proxy-Connection: close\r\nProxy-Authorization: x\r\nUpgrade: h2c\r\nTrailer: x\r\n" +
			"X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Port: 1\r\nForwarded: for=6.6.6.6\r\n" +
			"X-Real-IP: 6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\nVia: 1.0 a\r\nVia: 1.1 b\r\n", "", nil,
			"GET /api HTTP/1.1\r\n" + host + forwarded + "Via: 1.0 a, 1.1 b, 1.1 lwango\r\n\r\n"},
		{"GET /api", "TE: trailers\r\nConnection: TE\r\n", "", nil,
			"GET /api HTTP/1.1\r\n" + host + forwarded + via + "TE: trailers\r\nConnection: TE\r\n\r\n"},
		// A path goes on as it came, unless it means another one.
		{"GET /api/a%2Fb%20?q=%20|", "", "", nil,
			"GET /api/a%2Fb%20?q=%20| HTTP/1.1\r\n" + host + forwarded + via + "\r\n"},
		{"GET /api/x/..%2f../api//y", "", "", nil,
			"GET /api/y HTTP/1.1\r\n" + host + forwarded + via + "\r\n"},
		{"GET http://test.example/api/x", "", "", nil,
			"GET /api/x HTTP/1.1\r\n" + host + forwarded + via + "\r\n"},
		{"GET /api/a%2Fb", "", "", func(s *proxy.Settings) { s.StripPrefix = true },
			"GET /a%2Fb HTTP/1.1\r\n" + host + stripped + via + "\r\n"},
		{"GET /%61pi/a%2Fb?c", "", "", func(s *proxy.Settings) { s.StripPrefix = true },
			"GET /a%2Fb?c HTTP/1.1\r\n" + host + stripped + via + "\r\n"},
		{"GET /api%2Fa%2Fb", "", "", func(s *proxy.Settings) { s.StripPrefix = true },
			"GET /a/b HTTP/1.1\r\n" + host + stripped + via + "\r\n"},
		{"GET /api?c", "", "", func(s *proxy.Settings) { s.StripPrefix = true },
			"GET /?c HTTP/1.1\r\n" + host + stripped + via + "\r\n"},
		// Settings.
		{"GET /api", "X_A: b\r\n", "", func(s *proxy.Settings) {
			s.Host, s.Underscores, s.MaxIdle = "app.example:81", true, 0
		}, "GET /api HTTP/1.1\r\nHost: app.example:81\r\nX_A: b\r\n" + forwarded + via +
			"Connection: close\r\n\r\n"},
		// With underscores, what the server or the configuration says is not said by the client, too.
		{"GET /api", "X_Forwarded_For: 6.6.6.6\r\nx_forwarded-Port: 1\r\nX_Real_IP: 6.6.6.6\r\n" +
			"X_Request_ID: x\r\nX-Request_ID: y\r\nX_Key: client\r\nX_A: b\r\n", "",
			func(s *proxy.Settings) {
				s.Underscores, s.RequestHeaders = true, map[string]string{"X-Key": "secret"}
			}, "GET /api HTTP/1.1\r\n" + host + "X_A: b\r\n" + forwarded + "X-Key: secret\r\n" +
				via + "\r\n"},
		{"GET /api", "", "", func(s *proxy.Settings) { s.Host = "upstream" },
			"GET /api HTTP/1.1\r\nHost: " + o.addr + "\r\n" + forwarded + via + "\r\n"},
		{"GET /api", "", "", func(s *proxy.Settings) {
			s.Host, s.Address = "upstream", []string{"\t" + o.addr + "\tweight=2"}
		}, "GET /api HTTP/1.1\r\nHost: " + o.addr + "\r\n" + forwarded + via + "\r\n"},
		{"GET /api", "Cookie: a\r\nX-Key: client\r\n", "", func(s *proxy.Settings) {
			s.RequestHeaders = map[string]string{"x-key": "secret", "Cookie": ""}
		}, "GET /api HTTP/1.1\r\n" + host + forwarded + "x-key: secret\r\n" + via + "\r\n"},
		// What the configuration says of the client, the server does not say, and the client not
		// either.
		{"GET /api", "X-Forwarded-Proto: gopher\r\n", "", func(s *proxy.Settings) {
			s.RequestHeaders = map[string]string{"x-forwarded-proto": "https",
				"X-Forwarded-Host": "public.example", "X-Forwarded-For": "", "Forwarded": "",
				"X-Real-IP": "10.0.0.1"}
		}, "GET /api HTTP/1.1\r\n" + host + "X-Forwarded-Host: public.example\r\n" +
			"X-Real-IP: 10.0.0.1\r\nx-forwarded-proto: https\r\n" + via + "\r\n"},
	} {
		f := serve(t, modes.Direct, "/api", []string{o.addr}, tt.change)
		g := f.ask(tt.line, tt.fields, tt.body)
		if n := len(requestID.FindAllString(g.body, -1)); n != 1 {
			t.Errorf("%s %q: %d ids in %q", tt.line, tt.fields, n, g.body)
		}
		if body := requestID.ReplaceAllString(g.body, ""); body != tt.want {
			t.Errorf("%s %q: %d %v\n%q\nwant\n%q", tt.line, tt.fields, g.status, g.err, body, tt.want)
		}
	}
	f := serve(t, modes.Direct, "/", []string{o.addr}, nil)
	for fields, want := range map[string]int{
		strings.Repeat("Via: 1.1 lwango\r\n", 10): 508,
		strings.Repeat("Via: 1.1 lwango\r\n", 9):  200,
	} {
		if g := f.ask("GET /", fields, ""); g.status != want {
			t.Errorf("%q: %d", fields, g.status)
		}
	}
	if g := f.ask("TRACE /", "", ""); g.status != 405 {
		t.Error("TRACE: ", g)
	}
}

// requestID is the field with the id of a request, which differs from request to request.
var requestID = regexp.MustCompile("X-Request-ID: [0-9a-f]{32}\r\n")

// TestRequestID: the upstream is told the id that the server's logs have, and not that of a client,
// unless the configuration says something else.
func TestRequestID(t *testing.T) { modes.Run(t, testRequestID, modes.Direct, modes.HTTP2) }

func testRequestID(t *testing.T, m modes.Mode) {
	o := start(t, func(p *originConn) {
		for head := p.head(); head != ""; head = p.head() {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(head), head)
		}
	})
	const claim = "X-Request-ID: theirs\r\nX-REQUEST-id: other\r\nX_Request_ID: third\r\n"
	f := serve(t, m, "/", []string{o.addr}, nil)
	seen := map[string]bool{}
	for range 3 {
		head := f.ask("GET /", claim, "").body
		id := requestID.FindString(head)
		if id == "" || seen[id] || strings.Contains(head, "theirs") ||
			strings.Contains(head, "other") || strings.Contains(head, "third") {
			t.Errorf("%q", head)
		}
		seen[id] = true
	}
	for value, want := range map[string]string{"": "", "fixed": "x-request-id: fixed\r\n"} {
		f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
			s.RequestHeaders = map[string]string{"x-request-id": value}
		})
		head := f.ask("GET /", claim, "").body
		if requestID.MatchString(head) || !strings.Contains(head, want) ||
			strings.Contains(head, "theirs") {
			t.Errorf("configured as %q: %q", value, head)
		}
	}
}

// TestAnswer: what the client gets.
func TestAnswer(t *testing.T) { modes.Run(t, testAnswer, modes.Direct, modes.HTTP2) }

func testAnswer(t *testing.T, m modes.Mode) {
	for _, tt := range []struct {
		method, answer string
		status         int
		want           string // the body, or what the log says
		has, hasNot    string // header fields
	}{
		{"GET", hello, 200, "hello", "Content-Length: 5", ""},
		{"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
			200, "hello", "", ""},
		{"GET", "HTTP/1.0 404 Gone fishing\r\nServer: x\r\nDate: y\r\n\r\nhello", 404, "hello",
			"Server: x", ""},
		{"GET", "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 0\r\n\r\n",
			200, "", "Date: Thu, 01 Jan 1970 00:00:00 GMT", ""},
		{"GET", "HTTP/1.1 200 OK\r\nConnection: x-a, keep-alive\r\nX-A: b\r\nContent-Length: 0\r\n\r\n",
			200, "", "", "X-A"},
		{"GET", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nUpgrade: h2\r\nContent-Length: 0\r\n\r\n",
			200, "", "", "Keep-Alive"},
		{"GET", "HTTP/1.1 200 OK\r\nUpgrade: h2\r\nContent-Length: 0\r\n\r\n", 200, "", "", "Upgrade"},
		{"GET", "HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nContent-Length: 0\r\n\r\n", 200, "",
			"Set-Cookie: a", ""},
		{"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, "", "Content-Length: 5", ""},
		{"GET", "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", 304, "", "Etag: \"x\"", ""},
		{"GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, "", "", ""},
		{"GET", "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + hello, 102, "", "", ""},
		// Nothing that two readers could read in two ways.
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 502,
			"more than one Content-Length", "", ""},
		{"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			502,
			"Transfer-Encoding and Content-Length", "", ""},
		{"GET", "SSH-2.0-x\r\n", 502, "malformed answer", "", ""},
		{"GET", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
			502, "not asked for", "", ""},
		{"GET", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70<<10) + "\r\n\r\n", 502,
			"too large", "", ""},
		{"GET", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100), 502, "too many interim", "", ""},
		{"GET", "", 502, "closed the connection", "", ""},
	} {
		o := start(t, func(p *originConn) { p.request(); p.say("%s", tt.answer) })
		f := serve(t, m, "/", []string{o.addr}, nil)
		g := f.ask(tt.method+" /", "", "")
		if g.err != nil || g.status != tt.status {
			t.Errorf("%q: %d %v; log %s", tt.answer, g.status, g.err, f.log)
		} else if tt.status == 502 {
			wait.Until(t, "log: "+tt.want, func() bool {
				return strings.Contains(f.log.String(), tt.want)
			})
		} else if g.body != tt.want {
			t.Errorf("%q: %q", tt.answer, g.body)
		}
		if name, value, _ := strings.Cut(tt.has, ": "); tt.has != "" && g.header.Get(name) != value {
			t.Errorf("%q: %v, want %s", tt.answer, g.header, tt.has)
		}
		if tt.hasNot != "" && g.header.Get(tt.hasNot) != "" {
			t.Errorf("%q: %v", tt.answer, g.header)
		}
	}
}

// TestIdleConnections: connections are kept and used again, for all methods; a request that may be
// repeated is sent again if a kept connection ends without an answer.
func TestIdleConnections(t *testing.T) {
	modes.Run(t, testIdleConnections, modes.Direct, modes.HTTP2)
}

func testIdleConnections(t *testing.T, m modes.Mode) {
	o := start(t, always(hello))
	keep := func(s *proxy.Settings) { s.IdleTimeout = wait.Patience }
	f := serve(t, m, "/", []string{o.addr}, keep)
	for range 3 {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			if g := f.ask(method+" /", "Content-Length: 1\r\n", "x"); g.body != "hello" {
				t.Error(method, g, f.log)
			}
		}
	}
	f.ask("POST "+last, "", "") // a GET would be sent again
	if n := o.accepted.Load(); n != 1 {
		t.Error(n, " connections")
	}
	for _, methods := range [][]string{{"PUT", "PUT", "PUT", "PUT"}, {"PUT", "POST"}} {
		o = start(t, func(p *originConn) { p.request(); p.say(hello); p.request() })
		f = serve(t, m, "/", []string{o.addr}, keep)
		for i, method := range methods {
			g := f.ask(method+" /", "Content-Length: 1\r\n", "x")
			if again := method != "POST"; again != (g.body == "hello") || !again && g.status != 502 {
				t.Error(i, method, g, f.log)
			}
		}
	}
	for _, answer := range []string{
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
		hello + "x",
		"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	} {
		o := start(t, func(p *originConn) { p.request(); p.say("%s", answer); p.request() })
		f := serve(t, m, "/", []string{o.addr}, nil)
		f.get("/")
		wait.Until(t, "the connection is closed", func() bool { return o.open.Load() == 0 })
	}
}

// TestPieces: an answer that comes byte by byte, and a request that is sent so.
func TestPieces(t *testing.T) { modes.Run(t, testPieces, modes.Direct, modes.HTTP2) }

func testPieces(t *testing.T, m modes.Mode) {
	const answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n" +
		"2\r\nhe\r\n3\r\nllo\r\n0\r\nA: b\r\n\r\n"
	o := start(t, func(p *originConn) {
		for req := p.request(); req != nil && req.URL.Path != last; req = p.request() {
			for i := range len(answer) {
				p.say("%s", answer[i:i+1])
			}
		}
	})
	f := serve(t, m, "/", []string{o.addr},
		func(s *proxy.Settings) { s.IdleTimeout = wait.Patience })
	c := f.Dial()
	for range 3 {
		c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		std := must.Get(http.ReadResponse(c.R, nil))(t)
		body, err := io.ReadAll(std.Body)
		if err != nil || string(body) != "hello" || std.Trailer.Get("A") != "b" {
			t.Errorf("%q %v %v", body, std.Trailer, err)
		}
	}
	f.ask("POST "+last, "", "")
	if n := o.accepted.Load(); n != 1 {
		t.Error(n, " connections")
	}
}

// TestTimeouts: each wait has its own limit.
func TestTimeouts(t *testing.T) { modes.Run(t, testTimeouts, modes.Direct, modes.HTTP2) }

func testTimeouts(t *testing.T, m modes.Mode) {
	end := make(chan bool)
	hang := func(p *originConn) { p.request(); io.Copy(io.Discard, p.r) }
	for name, tt := range map[string]struct {
		script func(*originConn)
		change func(*proxy.Settings)
		body   string
		status int
	}{
		"first byte": {hang, func(s *proxy.Settings) { s.FirstByteTimeout = 50 * time.Millisecond }, "",
			504},
		"head": {func(p *originConn) {
			p.request()
			for _, err := p.Write([]byte("HTTP/1.1 200 OK\r\nX")); err == nil; _, err = p.Write(
				[]byte("x")) {
				time.Sleep(time.Millisecond)
			}
		}, func(s *proxy.Settings) { s.ReadTimeout = 50 * time.Millisecond }, "", 504},
		"body": {func(p *originConn) {
			p.request()
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
			io.Copy(io.Discard, p.r)
		}, func(s *proxy.Settings) { s.ReadTimeout = 50 * time.Millisecond }, "", 200},
		// It never reads.
		"send": {func(p *originConn) { p.head(); <-end },
			func(s *proxy.Settings) { s.SendTimeout = 50 * time.Millisecond },
			strings.Repeat("x", 16<<20), 504},
	} {
		o := start(t, tt.script)
		f := serve(t, m, "/", []string{o.addr}, tt.change)
		g := f.ask("PUT /", fmt.Sprintf("Content-Length: %d\r\n", len(tt.body)), tt.body)
		if g.status != tt.status || (g.err != nil) != (tt.status == 200) {
			t.Errorf("%s: %d %v", name, g.status, g.err)
		}
	}
	close(end)
}

// TestBothWays: a body and its answer move at once, on plain and TLS connections.
func TestBothWays(t *testing.T) {
	o := start(t, func(p *originConn) {
		req, err := http.ReadRequest(p.r)
		if err != nil {
			return
		}
		p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		buf := make([]byte, 64<<10)
		for {
			n, err := req.Body.Read(buf)
			if n > 0 {
				p.say("%x\r\n%s\r\n", n, buf[:n])
			}
			if err != nil {
				t := req.Trailer
				p.say("0\r\nT: %s%s%s\r\n\r\n", t.Get("T"), t.Get("X-Forwarded-For"), t.Get("Host"))
				return
			}
		}
	})
	for _, m := range []modes.Mode{modes.Direct, modes.OverTLS, modes.HTTP2} {
		f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
			s.RequestBuffering, s.ResponseBuffering = false, 64<<10
		})
		c := f.Dial()
		c.Send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n")
		std := must.Get(http.ReadResponse(c.R, nil))(t) // before a byte of the body is sent
		const size, pieces = 50_000, 100
		go func() {
			piece := strings.Repeat("x", size)
			for range pieces {
				fmt.Fprintf(c, "%x\r\n%s\r\n", size, piece)
			}
			io.WriteString(c, "0\r\nX-Forwarded-For: 10.0.0.1\r\nT: end\r\nHost: b\r\n\r\n")
		}()
		body, err := io.ReadAll(std.Body)
		if err != nil || len(body) != size*pieces || std.Trailer.Get("T") != "end" {
			t.Error(len(body), err, std.Trailer, f.log)
		}
	}
}

// TestUpgrade: after a 101 bytes pass in both directions, those that came early included, until
// both sides have ended.
func TestUpgrade(t *testing.T) {
	o := start(t, func(p *originConn) {
		if head := p.head(); !strings.Contains(head, "Upgrade: websocket\r\nConnection: Upgrade\r\n") ||
			!strings.Contains(head, "Sec-WebSocket-Key: k\r\n") {
			p.say("HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n")
			return
		}
		p.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n" +
			"Sec-WebSocket-Accept: a\r\n\r\nearly")
		io.Copy(p, p.r)
		p.say("late")
	})
	const request = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n" +
		"Upgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
	for _, m := range []modes.Mode{modes.Direct, modes.OverTLS} {
		f := serve(t, m, "/", []string{o.addr}, nil)
		c := f.Dial()
		c.Send(request + "first")
		std, err := http.ReadResponse(c.R, nil)
		if err != nil || std.StatusCode != 101 || std.Header.Get("Upgrade") != "WebSocket" ||
			std.Header.Get("Connection") != "Upgrade" || std.Header.Get("Sec-WebSocket-Accept") != "a" {
			t.Fatal(std, err, f.log)
		}
		expect := func(text string) {
			t.Helper()
			got := make([]byte, len(text))
			if _, err := io.ReadFull(c.R, got); err != nil || string(got) != text {
				t.Fatalf("%q, %v, want %q", start30(got), err, start30([]byte(text)))
			}
		}
		expect("earlyfirst")
		for _, n := range []int{1, 100, 100_000, 5_000_000} {
			text := strings.Repeat("x", n)
			go io.WriteString(c, text)
			expect(text)
		}
		c.CloseWrite()
		expect("late")
		if rest, err := io.ReadAll(c.R); len(rest) > 0 || err != nil {
			t.Errorf("%q %v", rest, err)
		}
		wait.Until(t, "the connection is closed", func() bool { return o.open.Load() == 0 })
	}
	f := serve(t, modes.Direct, "/", []string{o.addr},
		func(s *proxy.Settings) { s.TunnelTimeout = 50 * time.Millisecond })
	c := f.Dial()
	c.Send(request)
	if _, err := io.ReadAll(c.R); err != nil {
		t.Error(err)
	}
	other := start(t, func(p *originConn) {
		p.head()
		p.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: other\r\n\r\n")
	})
	f = serve(t, modes.Direct, "/", []string{other.addr}, nil)
	c = f.Dial()
	c.Send(request)
	if g := read(c.R, "GET"); g.status != 502 {
		t.Error("another protocol: ", g)
	}
}

func start30(b []byte) []byte { return b[:min(len(b), 30)] }

// TestTwoUpstreams: what does not work is passed over, and a request that may be repeated goes to
// the other one.
func TestTwoUpstreams(t *testing.T) { modes.Run(t, testTwoUpstreams, modes.Direct, modes.HTTP2) }

func testTwoUpstreams(t *testing.T, m modes.Mode) {
	bad := start(t, func(p *originConn) { p.request() })
	good := start(t, always(hello))
	f := serve(t, m, "/", []string{bad.addr, good.addr}, nil)
	for range 8 {
		if g := f.get("/"); g.body != "hello" {
			t.Error(g, f.log)
		}
	}
}

// TestSettings: what is refused at the start.
func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		change func(*proxy.Settings)
		want   string
	}{
		{func(s *proxy.Settings) { s.Address = nil },
			`address: missing: where the upstream listens, such as "127.0.0.1:9001"`},
		{func(s *proxy.Settings) { s.Address = []string{"a:1 backup"} },
			"address: every address is a backup"},
		{func(s *proxy.Settings) { s.Address = []string{"a"} },
			`address: expected unix:/path or host:port, not "a"`},
		{func(s *proxy.Settings) { s.Host = "a b" },
			`host: expected "client", "upstream" or a name, perhaps with a port, not "a b"`},
		{func(s *proxy.Settings) { s.Host = "" },
			`host: expected "client", "upstream" or a name, perhaps with a port, not ""`},
		{func(s *proxy.Settings) { s.HideHeader = []string{"a b"} },
			`hide_header: expected the name of a header field, not "a b"`},
		{func(s *proxy.Settings) { s.RequestHeaders = map[string]string{"a:": ""} },
			`request_headers: "a:" is not the name of a header field`},
		{func(s *proxy.Settings) { s.RequestHeaders = map[string]string{"A": "\n"} },
			"request_headers: A: control characters cannot be part of a header field"},
		{func(s *proxy.Settings) { s.RequestHeaders = map[string]string{"content-length": "1"} },
			"request_headers: content-length is set by the server itself"},
		{func(s *proxy.Settings) { s.RequestHeaders = map[string]string{"Connection": "1"} },
			"request_headers: Connection is set by the server itself"},
		{func(s *proxy.Settings) { s.RequestHeaders = map[string]string{"Host": "a"} },
			"request_headers: Host is set by the server itself"},
		{func(s *proxy.Settings) { s.RequestHeaders = map[string]string{"via": ""} },
			"request_headers: via is set by the server itself"},
		{func(s *proxy.Settings) { s.RequestHeaders = map[string]string{"Expect": "100-continue"} },
			"request_headers: Expect is set by the server itself"},
		{func(s *proxy.Settings) { s.RequestHeaders = map[string]string{"Trailer": "A"} },
			"request_headers: Trailer is set by the server itself"},
		{func(s *proxy.Settings) { s.RequestHeaders = map[string]string{"TE": "gzip"} },
			"request_headers: TE is set by the server itself"},
		{func(s *proxy.Settings) { s.RequestHeaders = map[string]string{"X-A": "1", "x-a": "2"} },
			"request_headers: x-a is given twice"},
		{func(s *proxy.Settings) {
			s.RequestHeaders = map[string]string{"A": "{client}"}
		},
			`request_headers: A: "{client}": unknown placeholder {client} ` + known},
		{func(s *proxy.Settings) {
			s.RequestHeaders = map[string]string{"A": "x $remote_addr"}
		},
			`request_headers: A: "x $remote_addr": unknown placeholder $remote_addr ` + known},
	} {
		_, err := module.Build(t, proxy.Register, "proxy", handlers.Env{}, func(s *proxy.Settings) {
			s.Address = []string{"127.0.0.1:1"}
			tt.change(s)
		})
		if err == nil || err.Error() != tt.want {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}
