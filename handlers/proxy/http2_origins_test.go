package proxy_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/wire/http2"
)

// TestHTTP2Uploads: bodies of all sizes and framings reach an upstream of HTTP/2 whole, with their
// trailers, whether they are buffered or not.
func TestHTTP2Uploads(t *testing.T) {
	modes.Run(t, testHTTP2Uploads, modes.Direct, modes.OverTLS, modes.HTTP2)
}

func testHTTP2Uploads(t *testing.T, m modes.Mode) {
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		fmt.Fprintf(w, "%d %x %d %v %s", n, sum.Sum(nil), r.ContentLength, err, r.Trailer.Get("T"))
	}, nil)
	for _, buffered := range []bool{true, false} {
		f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
			version2(s)
			s.RequestBuffering = buffered
		})
		for _, size := range []int{0, 1, 16 << 10, 16<<10 + 1, 70_000, 1 << 20} {
			body := strings.Repeat("0123456789abcdef", size/16+1)[:size]
			sum := sha256.Sum256([]byte(body))
			g := f.ask("PUT /", fmt.Sprint("Content-Length: ", size, "\r\n"), body)
			if want := fmt.Sprintf("%d %x %d <nil> ", size, sum, size); g.body != want {
				t.Errorf("buffered %t: %d %q %v, want %q", buffered, g.status, g.body, g.err, want)
			}
			if size == 0 {
				continue
			}
			chunks := fmt.Sprintf("1\r\n%s\r\n", body[:1])
			if size > 1 {
				chunks += fmt.Sprintf("%x\r\n%s\r\n", size-1, body[1:])
			}
			g = f.ask("POST /", "Transfer-Encoding: chunked\r\nTrailer: T\r\n", chunks+"0\r\nT: end\r\n\r\n")
			length := -1 // a body that has come before it is sent on has a known one
			if buffered {
				length = size
			}
			want := fmt.Sprintf("%d %x %d <nil> ", size, sum, length)
			if !strings.HasPrefix(g.body, want) || !buffered && g.body != want+"end" {
				t.Errorf("chunked, buffered %t: %d %q %v, want %q", buffered, g.status, g.body, g.err, want)
			}
		}
	}
}

// TestHTTP2Answers: answers of all kinds come from an upstream of HTTP/2 as it has meant them.
func TestHTTP2Answers(t *testing.T) {
	modes.Run(t, testHTTP2Answers, modes.Direct, modes.OverTLS, modes.HTTP2)
}

func testHTTP2Answers(t *testing.T, m modes.Mode) {
	large := strings.Repeat("x", 40<<10) // more than a frame holds
	flush := func(w http.ResponseWriter) { w.(http.Flusher).Flush() }
	handlers := map[string]http.HandlerFunc{
		"/plain": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") },
		"/long": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, strings.Repeat("x", 1<<20))
		},
		"/pieces": func(w http.ResponseWriter, r *http.Request) {
			for range 5 {
				io.WriteString(w, "piece")
				flush(w)
			}
		},
		"/none": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) },
		"/cached": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"e"`)
			w.WriteHeader(304)
		},
		"/missing": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(404)
			io.WriteString(w, "no")
		},
		"/hints": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</a>")
			w.WriteHeader(103)
			w.WriteHeader(103)
			io.WriteString(w, "hello")
		},
		"/large": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Large", large)
			io.WriteString(w, "x")
		},
		"/asked": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, len(r.Header.Get("X-Large")))
		},
		"/trailer": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "T")
			io.WriteString(w, "hello")
			w.Header().Set("T", "end")
		},
		"/unannounced": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "hello")
			flush(w)
			w.Header().Set(http.TrailerPrefix+"T", "end")
		},
		"/early": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(413)
			io.WriteString(w, "large")
		},
	}
	o := start2(t, func(w http.ResponseWriter, r *http.Request) { handlers[r.URL.Path](w, r) }, nil)
	f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
		version2(s)
		s.RequestBuffering = false
	})
	for _, tt := range []struct{ line, fields, body, want string }{
		{"GET /plain", "", "", "200 hello"},
		{"HEAD /plain", "", "", "200 "},
		{"GET /long", "", "", "200 " + strings.Repeat("x", 1<<20)},
		{"HEAD /long", "", "", "200 "},
		{"GET /pieces", "", "", "200 piecepiecepiecepiecepiece"},
		{"GET /none", "", "", "204 "},
		{"GET /cached", "", "", "304 "},
		{"GET /missing", "", "", "404 no"},
		{"HEAD /missing", "", "", "404 "},
		{"GET /hints", "", "", "103 103 200 hello"},
		{"GET /large", "", "", "200 x large"},
		{"GET /asked", "X-Large: " + large[:12<<10] + "\r\nX-Other: " + large[:2<<10] + "\r\n", "",
			"200 12288"},
		{"GET /trailer", "TE: trailers\r\n", "", "200 hello end"},
		{"GET /unannounced", "TE: trailers\r\n", "", "200 hello end"},
		{"PUT /early", "Content-Length: 1000000\r\n", strings.Repeat("x", 1_000_000), "413 large"},
	} {
		c := f.Dial()
		go io.WriteString(c, tt.line+" HTTP/1.1\r\nHost: a\r\n"+tt.fields+"\r\n"+tt.body)
		method, _, _ := strings.Cut(tt.line, " ")
		got, status := "", 0
		for status < 200 {
			std, err := http.ReadResponse(c.R, &http.Request{Method: method})
			if err != nil {
				t.Errorf("%s: %v; log %s", tt.line, err, f.log)
				break
			}
			status = std.StatusCode
			got += fmt.Sprint(status, " ")
			if status < 200 {
				continue
			}
			body, err := io.ReadAll(std.Body)
			got += string(body)
			if err != nil {
				t.Errorf("%s: %v", tt.line, err)
			}
			if std.Header.Get("X-Large") == large {
				got += " large"
			}
			if end := std.Trailer.Get("T"); end != "" {
				got += " " + end
			}
		}
		c.Close()
		if got != tt.want {
			t.Errorf("%s: %.100q, want %.100q; log %s", tt.line, got, tt.want, f.log)
		}
	}
	if n := o.accepted.Load(); n != 1 {
		t.Error(n, " connections")
	}
}

// TestHTTP2Resets: a stream that the upstream resets is an answer that is missing, or one that is
// cut off, and the other streams of the connection go on.
func TestHTTP2Resets(t *testing.T) { modes.Run(t, testHTTP2Resets, modes.Direct, modes.HTTP2) }

func testHTTP2Resets(t *testing.T, m modes.Mode) {
	for _, code := range []http2.Code{http2.NoError, http2.InternalError, http2.Cancel,
		http2.EnhanceYourCalm,
		http2.HTTP11Required} {
		var length []byte
		for _, tt := range []struct {
			name string
			sent func(id uint32) []byte
			want int // the status; 0: none, the answer is cut off
		}{
			{"no head", func(uint32) []byte { return nil }, 502},
			{"a hint", func(id uint32) []byte {
				return http2.AppendBlock(nil, id, 0, http2.AppendStatus(nil, 103), http2.DefaultFrameSize)
			}, 502},
			{"a part", func(id uint32) []byte {
				out := http2.AppendBlock(nil, id, 0, http2.AppendStatus(nil, 200), http2.DefaultFrameSize)
				return append(http2.AppendHeader(out, http2.Data, 0, id, 5), "hello"...)
			}, 0},
			{"a part of a length", func(id uint32) []byte {
				length = http2.AppendLength(http2.AppendStatus(nil, 200), 10)
				out := http2.AppendBlock(nil, id, 0, length, http2.DefaultFrameSize)
				return append(http2.AppendHeader(out, http2.Data, 0, id, 5), "hello"...)
			}, 0},
			{"all but the end", func(id uint32) []byte {
				length = http2.AppendLength(http2.AppendStatus(nil, 200), 5)
				out := http2.AppendBlock(nil, id, 0, length, http2.DefaultFrameSize)
				return append(http2.AppendHeader(out, http2.Data, 0, id, 5), "hello"...)
			}, 0},
			// An upstream that needs no more of the request says so behind its answer (RFC 9113
			// section 8.1).
			{"all", func(id uint32) []byte {
				out := http2.AppendBlock(nil, id, 0, http2.AppendStatus(nil, 200), http2.DefaultFrameSize)
				return append(http2.AppendHeader(out, http2.Data, http2.EndStream, id, 5), "hello"...)
			}, 200},
		} {
			o := start(t, func(p *originConn) {
				hello2(p)
				for id := await2(p, http2.Headers); id != 0; id = await2(p, http2.Headers) {
					if id == 1 {
						_, _ = p.Write(http2.AppendReset(tt.sent(id), id, code))
					} else {
						_, _ = p.Write(answer2(id))
					}
				}
			})
			f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) {
				version2(s)
				s.RequestBuffering = false
			})
			var g got
			c := f.Dial()
			if tt.want == 200 { // the rest of the request does not come
				c.Send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
			} else {
				c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			}
			for {
				if g = read(c.R, "GET"); g.status == 0 || g.status >= 200 {
					break
				}
			}
			c.Close()
			whole := g.err == nil && g.status == 200
			switch {
			case tt.want == 0 && whole && tt.name != "all but the end",
				tt.want == 502 && g.status != 502,
				tt.want == 200 && (!whole || g.body != "hello"):
				t.Errorf("%v behind %s: %d %q %v; log %s", code, tt.name, g.status, g.body, g.err, f.log)
			}
			if g := f.get("/"); g.status != 200 || g.err != nil {
				t.Errorf("%v behind %s, then: %d %v; log %s", code, tt.name, g.status, g.err, f.log)
			}
			if n := o.accepted.Load(); n != 1 {
				t.Errorf("%v behind %s: %d connections", code, tt.name, n)
			}
		}
	}
}

// TestHTTP2GoAway: no request fails while the upstream ends one connection after the other in
// order.
func TestHTTP2GoAway(t *testing.T) {
	const clients, requests, each = 8, 40, 40 // so that none loses three connections in a row
	var asked atomic.Int32
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if asked.Add(1)%each == 0 {
			w.Header().Set("Connection", "close") // net/http's server sends GOAWAY then
		}
		w.Write(body)
	}, nil)
	f := serve(t, modes.Several, "/", []string{o.addr}, version2)
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			for i := range requests {
				body := fmt.Sprint(n, "/", i)
				g := f.ask("POST /", fmt.Sprint("Content-Length: ", len(body), "\r\n"), body)
				if g.status != 200 || g.body != body || g.err != nil {
					t.Errorf("%s: %d %q %v", body, g.status, g.body, g.err)
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.Log(f.log)
	}
	if n := o.accepted.Load(); n < 2 || asked.Load() < clients*requests {
		t.Error(n, " connections, ", asked.Load(), " requests")
	}
}

// TestHTTP2Shutdown: an upstream that is stopped in order answers what is under way.
func TestHTTP2Shutdown(t *testing.T) {
	const many = 10
	var std *http.Server
	there, goOn := make(chan bool), make(chan bool)
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		there <- true
		<-goOn
		io.WriteString(w, strings.Repeat("x", 100_000))
	}, func(s *http.Server) { std = s })
	f := serve(t, modes.Direct, "/", []string{o.addr}, version2)
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			if g := f.get("/"); g.status != 200 || len(g.body) != 100_000 || g.err != nil {
				t.Errorf("%d, %d bytes, %v", g.status, len(g.body), g.err)
			}
		})
	}
	for range many {
		<-there
	}
	all.Go(func() { _ = std.Shutdown(context.Background()) })
	close(goOn)
	all.Wait()
	if g := f.get("/"); g.status != 502 {
		t.Error("behind the stop: ", g.status, g.body)
	}
}

// TestHTTP2MaxConns: of many requests at once no more than max_conns are at the upstream, and all
// have their turn.
func TestHTTP2MaxConns(t *testing.T) {
	const most, many = 3, 60
	var now, peak atomic.Int32
	there, goOn := make(chan bool, many), make(chan bool)
	o := start2(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
		}
		there <- true
		<-goOn
		now.Add(-1)
		io.WriteString(w, r.URL.Path)
	}, nil)
	f := serve(t, modes.Several, "/", []string{o.addr}, func(s *proxy.Settings) {
		version2(s)
		s.MaxConns, s.MaxQueue = most, many
	})
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			path := fmt.Sprint("/", i)
			if g := f.get(path); g.body != path {
				t.Errorf("%s: %d %q; log %s", path, g.status, g.body, f.log)
			}
		})
	}
	for range most {
		<-there
	}
	for range many {
		goOn <- true
	}
	all.Wait()
	if n := peak.Load(); n > most {
		t.Error(n, " requests at once")
	}
}
