package conn_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
)

type mount func(http.Handler) conn.Handler

// bothWays gives each way of running an http.Handler the same test, in each mode.
func bothWays(t *testing.T, f func(t *testing.T, m mode, mount mount), modes ...mode) {
	run(t, func(t *testing.T, m mode) {
		t.Run("off the loop", func(t *testing.T) { f(t, m, conn.HTTP) })
		t.Run("on the loop", func(t *testing.T) { f(t, m, conn.HTTPOnLoop) })
	}, modes...)
}

// reference serves h with net/http.
func reference(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// ask sends raw and returns the answer to the last of its requests; interim ones are named in the status.
func ask(t *testing.T, c net.Conn, method, raw string) answer {
	t.Helper()
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	send(t, c, raw)
	br := bufio.NewReader(c)
	interim := ""
	for {
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return answer{&http.Response{Status: interim + "none"}, ""}
		}
		if resp.StatusCode < 200 && resp.StatusCode != 101 {
			interim += fmt.Sprint(resp.StatusCode, resp.Header, " ")
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			body = fmt.Append(body, " and then ", err)
		}
		resp.Status = interim + strconv.Itoa(resp.StatusCode)
		return answer{resp, string(body)}
	}
}

// sameAsReference compares an answer with what net/http gives.
func sameAsReference(t *testing.T, what string, got, want answer) {
	t.Helper()
	if got.Status != want.Status {
		t.Errorf("%s: %s, net/http: %s", what, got.Status, want.Status)
	}
	if got.text != want.text {
		t.Errorf("%s:\n%s\nnet/http:\n%s", what, clip(got.text), clip(want.text))
	}
	for _, h := range []http.Header{got.Header, want.Header} {
		h.Del("Date")
		h.Del("Connection")     // what it means is compared
		h.Del("Content-Length") // we know it for up to 32 KiB, net/http for 2
	}
	if !maps.EqualFunc(got.Header, want.Header, slices.Equal) {
		t.Errorf("%s: header\n%q\nnet/http:\n%q", what, got.Header, want.Header)
	}
	if !maps.EqualFunc(got.Trailer, want.Trailer, slices.Equal) {
		t.Errorf("%s: trailer %q, net/http: %q", what, got.Trailer, want.Trailer)
	}
	if got.Close != want.Close {
		t.Errorf("%s: close %v, net/http: %v", what, got.Close, want.Close)
	}
}

// tell writes everything that a handler can see of a request.
func tell(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %q %s %d.%d %q close %v\n", r.Method, r.RequestURI, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host, r.Close)
	fmt.Fprintf(w, "URL %#v\n", *r.URL)
	fmt.Fprintf(w, "length %d %q no body %v\n", r.ContentLength, r.TransferEncoding, r.Body == http.NoBody)
	fmt.Fprintf(w, "header %q\ntrailer %q\n", r.Header, r.Trailer)
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	fmt.Fprintln(w, "from", host, err, "pattern", r.Pattern)
	if r.URL.Query().Has("form") {
		err := r.ParseMultipartForm(1 << 20)
		fmt.Fprintln(w, "form", r.Form, r.PostForm, err)
	}
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "body %q %v\ntrailer %q\n", body, err, r.Trailer)
	_, err = r.Body.Read(make([]byte, 1))
	fmt.Fprintln(w, "again", err)
	r.Body.Close()
	_, err = r.Body.Read(make([]byte, 1))
	fmt.Fprintln(w, "closed", err)
}

var tellingRequests = []string{
	"GET / HTTP/1.1\r\nHost: a.example:80\r\n\r\n",
	"GET /a%2Fb/c%20d/../%7Ee?x=1&x=%zz;+y HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET //a//b/? HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://other.example:8080/p?q HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://other.example HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.0\r\n\r\n",
	"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n",
	"GET / HTTP/1.1\r\nhost: a\r\nx-lower: 1\r\nX-Lower: 2\r\nX-LOWER:\r\ncookie: a=b\r\nCookie: c=d\r\nPragma: no-cache\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\nCache-Control: x\r\nTrailer: A\r\n\r\n",
	"POST /?a=1&form HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\n\r\na=2&b=3",
	"POST /?form HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 61\r\n\r\n--x\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\nvalue\r\n--x--",
	"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\nTrailer: x-sum, y\r\n\r\n3\r\nabc\r\n0\r\nX-sum: 1\r\nX-Sum: 2\r\nZ: 3\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n0\r\n\r\n",
}

// TestBridgeRequest: a handler sees of a request what it would see under net/http.
func TestBridgeRequest(t *testing.T) {
	want := make([]answer, len(tellingRequests))
	addr := reference(t, http.HandlerFunc(tell))
	for i, raw := range tellingRequests {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		want[i] = ask(t, c, "GET", raw)
	}
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(tell))})
		for i, raw := range tellingRequests {
			a := want[i]
			a.Response = &http.Response{Status: a.Status, Header: a.Header.Clone(), Trailer: a.Trailer, Close: a.Close}
			sameAsReference(t, raw, ask(t, s.dial(), "GET", raw), a)
		}
	})
}

// TestBridgeRequestConnection: what a request tells of its connection.
func TestBridgeRequestConnection(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, r.RemoteAddr, r.Context().Value(http.LocalAddrContextKey), r.TLS != nil && r.TLS.HandshakeComplete)
		}))})
		c := s.client()
		want := fmt.Sprintln(c.LocalAddr(), s.addr, m.tls)
		if a := c.do("GET", get); a.text != want {
			t.Errorf("%q, not %q", a.text, want)
		}
	})
}

// respond are handlers that answer in all ways there are.
var respond = map[string]func(w http.ResponseWriter, r *http.Request){
	"/nothing": func(w http.ResponseWriter, r *http.Request) {},
	"/hello":   func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "Hello") },
	"/html":    func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "\n<ht"); io.WriteString(w, "ml>") },
	"/gif":     func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("GIF89a\x00")) },
	"/untyped": func(w http.ResponseWriter, r *http.Request) { w.Header()["Content-Type"] = nil; w.Write([]byte("x")) },
	"/encoded": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "x")
		w.Write([]byte("x"))
	},
	"/notfound": http.NotFound,
	"/empty404": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(404) },
	"/redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "other", 303) },
	"/204":      func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204); fmt.Fprint(w, "no") },
	"/304": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "a/b")
		w.Header().Set("ETag", `"e"`)
		w.WriteHeader(304)
		if _, err := w.Write([]byte("no")); err != http.ErrBodyNotAllowed {
			panic(err)
		}
	},
	"/unknown": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(599) },
	"/twice": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		w.Header().Set("X", "too late")
		w.WriteHeader(500)
		io.WriteString(w, "created")
	},
	"/implicit": func(w http.ResponseWriter, r *http.Request) {
		w.Write(nil)
		w.Header().Set("X", "too late")
		w.WriteHeader(500)
	},
	"/fields": func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["lower"] = []string{"1", "2"}
		h.Set("Split", "a\r\nSet-Cookie: b\nc")
		h["Bad name"] = []string{"x"}
		h["Bad:"] = []string{"x"}
		h[""] = []string{"x"}
		h.Set("Server", "own")
		h.Set("Empty", "")
		h["None"] = nil
	},
	"/date":   func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Date", "then") },
	"/undate": func(w http.ResponseWriter, r *http.Request) { w.Header()["Date"] = nil },
	"/close":  func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Connection", "close") },
	"/length": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		if n, err := io.WriteString(w, "12345"); n != 5 || err != nil {
			panic(err)
		}
		if n, err := io.WriteString(w, "6"); n != 0 || err != http.ErrContentLength {
			panic(err)
		}
	},
	"/short": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		io.WriteString(w, "123")
	},
	"/known": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		if r.Method != "HEAD" {
			io.WriteString(w, "12345")
		}
	},
	"/flush": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(202)
		w.(http.Flusher).Flush()
		io.WriteString(w, "<html>late")
		w.WriteHeader(500)
	},
	"/flushed": func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "<html>")
		w.(http.Flusher).Flush()
		io.WriteString(w, "late")
	},
	"/large": func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		for range 100 {
			io.WriteString(w, strings.Repeat("0123456789", 333))
		}
	},
	"/one": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, strings.Repeat("<b>", 100<<10)) },
	"/readfrom": func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(w, strings.NewReader(strings.Repeat("x", 100<<10)))
		if n != 100<<10 || err != nil {
			panic(err)
		}
	},
	"/early": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>")
		w.Header().Set("Content-Length", "3")
		w.WriteHeader(103)
		w.Header().Add("Link", "</b>")
		w.WriteHeader(103)
		io.WriteString(w, "abc")
	},
	"/continue": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(100); io.WriteString(w, "x") },
	"/trailer": func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "A, b")
		w.Header().Add("Trailer", "Never")
		io.WriteString(w, "body")
		w.Header().Set("A", "1")
		w.Header()["B"] = []string{"2", "3\n"}
	},
	"/latetrailer": func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat("x", 50<<10))
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"a", "1")
		w.Header().Set("B", "2")
	},
	"/template": func(w http.ResponseWriter, r *http.Request) {
		for _, s := range []string{"", "  ", "\n", "<!DOCTYPE ", "html>"} {
			io.WriteString(w, s)
		}
	},
}

// TestBridgeResponse: a client sees of an answer what it would see of net/http's.
func TestBridgeResponse(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { respond[r.URL.Path](w, r) })
	addr := reference(t, h)
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(h)})
		for _, path := range slices.Sorted(maps.Keys(respond)) {
			for _, form := range []string{"GET %s HTTP/1.1", "HEAD %s HTTP/1.1", "GET %s HTTP/1.0"} {
				line := fmt.Sprintf(form, path)
				method, _, _ := strings.Cut(line, " ")
				switch line {
				case "GET /early HTTP/1.0", "GET /continue HTTP/1.0":
					continue // net/http sends interim responses to clients that do not know them
				case "GET /trailer HTTP/1.0", "HEAD /trailer HTTP/1.1":
					continue // it closes for a trailer that cannot be sent; and does not tell of chunks in answer to HEAD
				}
				raw := line + "\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				want := ask(t, c, method, raw)
				got := ask(t, s.dial(), method, raw)
				for _, a := range []answer{got, want} {
					if date := a.Header.Get("Date"); date != "" && date != "then" {
						a.Header.Del("Date")
						a.Header.Set("X-Dated", "yes")
					}
				}
				sameAsReference(t, line, got, want)
			}
		}
	})
}

// TestBridgeKnownLength: a body that fits the buffers is not chunked, and HEAD tells the same.
func TestBridgeKnownLength(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for range 20 {
				w.Write(make([]byte, 1000))
			}
		}))})
		c := s.client()
		for _, method := range []string{"GET", "HEAD", "GET"} {
			if a := c.do(method, method+" / HTTP/1.1\r\nHost: a\r\n\r\n"); a.ContentLength != 20000 {
				t.Errorf("%s: %v", method, a.Response)
			}
		}
	})
}

// TestBridgeComplains: mistakes of a handler are logged with the place where they were made.
func TestBridgeComplains(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			respond["/twice"](w, r)
		}))})
		s.client().do("GET", get)
		s.idleLog("superfluous WriteHeader", "bridge_test.go:")
	})
}

// idleLog waits for a line in the log that contains all of these.
func (s *site) idleLog(parts ...string) {
	s.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		for line := range strings.Lines(s.log.String()) {
			if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
				return
			}
		}
		if time.Now().After(end) {
			s.t.Fatalf("no line of the log has %q:\n%s", parts, s.log)
		}
	}
}

// TestBridgePanics: a panic costs its connection, and is logged with the stack of the handler.
func TestBridgePanics(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/":
				io.WriteString(w, "good")
			case "/panic":
				w.Header().Set("X", "secret")
				io.WriteString(w, "secret")
				bridgePanics()
			case "/late":
				io.WriteString(w, "begun")
				w.(http.Flusher).Flush()
				bridgePanics()
			case "/abort":
				io.WriteString(w, "secret")
				panic(http.ErrAbortHandler)
			}
		}))})
		for path, want := range map[string]string{"/panic": "HTTP/1.1 500 ", "/late": "begun", "/abort": ""} {
			c := s.client()
			c.do("GET", get)
			before := strings.Count(s.log.String(), "bridgePanics")
			send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"+get)
			got, _ := io.ReadAll(c.br)
			text := string(got)
			if !strings.Contains(text, want) || strings.Contains(text, "secret") || strings.Contains(text, "good") ||
				want == "" && text != "" {
				t.Errorf("%s: %q", path, text)
			}
			if logged := strings.Count(s.log.String(), "bridgePanics") > before; logged != (path != "/abort") {
				t.Errorf("%s: logged %v\n%s", path, logged, s.log)
			}
		}
	})
}

func bridgePanics() { panic("for the test") }

// TestBridgeContext: the context ends with the request, and not before.
func TestBridgeContext(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		got := make(chan context.Context, 1)
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := r.Context().Err(); err != nil {
				t.Error(err)
			}
			got <- r.Context()
		}))})
		c := s.client()
		for range 3 {
			c.do("GET", get)
			ctx := <-got
			<-ctx.Done()
			if err := ctx.Err(); err != context.Canceled {
				t.Error(err)
			}
		}
	})
}

// TestBridgeIsDeadAfterwards: what a handler has kept does not lead to another's request.
func TestBridgeIsDeadAfterwards(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		type kept struct {
			w http.ResponseWriter
			r *http.Request
		}
		left := make(chan kept, 1)
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			left <- kept{w, r}
		}))})
		c := s.client()
		for range 2 {
			a := c.do("POST", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
			k := <-left
			if _, err := k.r.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
				t.Errorf("read: %v", err)
			}
			if a.text != "" || k.r.RequestURI != "/x" {
				t.Error(a.text, k.r.RequestURI)
			}
		}
	})
}

// TestBridgeMiddleware: a Handler in front can change the request's header, and add to the response's.
func TestBridgeMiddleware(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		h := mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("B", "handler")
			fmt.Fprint(w, r.Header["X-User"])
		}))
		s := start(t, m, conn.Config{
			Headers: []conn.Field{{Name: "C", Value: "configured"}, {Name: "B", Value: "configured"}},
			Handler: func(req *conn.Request, resp *conn.Response) int {
				req.Header().Set("x-user", "u")
				resp.Header().Add("a", "front")
				resp.Header().Add("b", "front")
				return h(req, resp)
			},
		})
		a := s.client().do("GET", "GET / HTTP/1.1\r\nHost: a\r\nX-User: forged\r\n\r\n")
		if a.text != "[u]" || a.Header.Get("A") != "front" || !slices.Equal(a.Header["B"], []string{"handler"}) ||
			a.Header.Get("C") != "configured" {
			t.Errorf("%q %v", a.text, a.Header)
		}
	})
}

// TestBridgeMarksBadTargets: what net/http cannot parse it does not get.
func TestBridgeBadTarget(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.NotFoundHandler())})
		got := s.exchange("GET http://a:b:c/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if a := parse(t, got, "GET")[0]; a.StatusCode != 400 {
			t.Error(a.Status)
		}
	})
}
