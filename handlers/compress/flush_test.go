package compress_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/compress"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

// TestFlushed: what was flushed can be decoded before anything follows.
func TestFlushed(t *testing.T) {
	pieces := []string{"one\n", prose(20 << 10), "three\n", prose(100 << 10), "five\n"}
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		for _, e := range encodings {
			for _, way := range []string{"stream", "events", "reader", "http", "loop"} {
				next := make(chan bool)
				handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/plain")
					for _, p := range pieces {
						io.WriteString(w, p)
						w.(http.Flusher).Flush()
						if way == "http" {
							<-next
						}
					}
				})
				h := func(req *conn.Request, resp *conn.Response) int {
					wait := func() {
						if err := req.Await(-1, func(context.Context) error { <-next; return nil }); err != nil {
							panic(err)
						}
					}
					switch way {
					case "http":
						return conn.HTTP(handler)(req, resp)
					case "loop":
						return conn.HTTPOnLoop(handler)(req, resp)
					case "reader":
						resp.Header().Set("Content-Type", "text/plain")
						resp.SetBodyReader(&slow{pieces: slices.Clone(pieces), wait: wait}, -1)
						return 200
					case "events":
						resp.Header().Set("Content-Type", "text/event-stream")
					}
					for _, p := range pieces {
						io.WriteString(resp, p)
						if resp.Flush() != nil {
							return 0
						}
						wait()
					}
					return 0
				}
				on := middleware(t, func(s *compress.Settings) {
					s.Types = append([]string{"text/event-stream"}, s.Types...)
				})
				s := module.Start(t, m, "/", on(h))
				c := s.Dial()
				c.Send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: " + e + "\r\n\r\n")
				a := must.Get(http.ReadResponse(c.R, nil))(t)
				want := e
				if e == "identity" || way == "events" && e != "gzip" {
					want = ""
				}
				if got := a.Header.Get("Content-Encoding"); got != want {
					t.Errorf("%s, %s: %s", way, e, got)
				}
				r := decoder(t, want, a.Body)
				for i, p := range pieces {
					got := make([]byte, len(p))
					if _, err := io.ReadFull(r, got); err != nil || string(got) != p {
						t.Fatalf("%s, %s, piece %d: %v", way, e, i, err)
					}
					if way != "loop" {
						next <- true
					}
				}
				if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
					t.Errorf("%s, %s: %d bytes more, %v", way, e, len(rest), err)
				}
				c.Close()
			}
		}
	})
}

// slow reads piece after piece, and waits between them.
type slow struct {
	pieces []string
	wait   func()
}

func (s *slow) Read(p []byte) (int, error) {
	if len(s.pieces) == 0 || s.pieces[0] == "" {
		s.wait()
		if len(s.pieces) > 0 {
			s.pieces = s.pieces[1:]
		}
	}
	if len(s.pieces) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.pieces[0])
	s.pieces[0] = s.pieces[0][n:]
	return n, nil
}

// TestCut: a body that does not come to its end does not look as if it had.
func TestCut(t *testing.T) {
	text := prose(100 << 10)
	ways := map[string]conn.Handler{
		"/abort": func(_ *conn.Request, resp *conn.Response) int {
			io.WriteString(resp, text)
			resp.Abort()
			return 200
		},
		"/panic": func(_ *conn.Request, resp *conn.Response) int {
			io.WriteString(resp, text)
			panic(http.ErrAbortHandler)
		},
		"/short": func(_ *conn.Request, resp *conn.Response) int {
			resp.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
			io.WriteString(resp, text)
			return 200
		},
		"/reader": func(_ *conn.Request, resp *conn.Response) int {
			resp.Header().Set("Content-Type", "text/plain")
			resp.SetBodyReader(strings.NewReader(text), int64(len(text)+1))
			return 200
		},
		"/fault": func(_ *conn.Request, resp *conn.Response) int {
			resp.Header().Set("Content-Type", "text/plain")
			resp.SetBodyReader(io.MultiReader(strings.NewReader(text), faulty{}), -1)
			return 200
		},
	}
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			return ways[req.Path()](req, resp)
		})
		for path := range ways {
			for _, e := range encodings[:3] {
				c := s.Dial()
				c.Send("GET " + path + " HTTP/1.1\r\nHost: a\r\nAccept-Encoding: " + e + "\r\n\r\n")
				a, err := http.ReadResponse(c.R, nil)
				if err != nil || a.Header.Get("Content-Encoding") != e {
					t.Errorf("%s: %v", path, err)
					continue
				}
				if _, err = io.Copy(io.Discard, a.Body); err == nil {
					t.Errorf("%s, %s: the body has an end", path, e)
				}
				c.Close()
			}
		}
	})
}

type faulty struct{}

func (faulty) Read([]byte) (int, error) { return 0, errors.New("a test") }

// TestTooMuch: what is written is measured as the handler wrote it.
func TestTooMuch(t *testing.T) {
	text := prose(100 << 10)
	s := start(t, modes.Direct, func(_ *conn.Request, resp *conn.Response) int {
		resp.Header().Set("Content-Length", strconv.Itoa(len(text)))
		io.WriteString(resp, text)
		if resp.Flush() != nil {
			t.Error("refused")
		}
		io.WriteString(resp, "more")
		if err := resp.Flush(); err != conn.ErrWroteTooMuch {
			t.Error(err)
		}
		return 200
	})
	c := s.Dial()
	c.Send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")
	_, _ = io.Copy(io.Discard, c.R)
}
