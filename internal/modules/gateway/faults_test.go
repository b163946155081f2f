package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestNoAnswer: an application that says nothing is given up in time.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p protocol) {
		done := make(chan bool)
		defer close(done)
		s := serve(t, p, "/", []string{application(t, p, "tcp", func(*request) { <-done })},
			func(s *upstreams.Gateway) { s.ReadTimeout = 20 * time.Millisecond })
		if g := s.ask("POST /", nil, "x"); g.status != 504 {
			t.Errorf("%+v", g)
		}
	})
}

// TestOthers: another address is asked where one refuses, or closes the connection in silence,
// unless the request may have been acted on.
func TestOthers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p protocol) {
		ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		nobody := ln.Addr().String()
		ln.Close()
		good := application(t, p, "unix", func(r *request) { r.reply("Status: 200\r\n\r\n" + r.body()) })
		s := serve(t, p, "/", []string{nobody, good}, func(s *upstreams.Gateway) { s.MaxFails = -1 })
		for range 4 {
			s.ask("POST /", nil, "hello").check(t, "refused", 200, "", "hello")
		}
		var silent atomic.Int32
		s = serve(t, p, "/", []string{application(t, p, "unix", func(r *request) {
			r.body()
			silent.Add(1)
		}), good + " backup"}, func(s *upstreams.Gateway) { s.MaxFails = -1 })
		s.ask("GET /", nil, "").check(t, "GET", 200, "", "")
		if g := s.ask("POST /", nil, "hello"); g.status != 502 || silent.Load() != 2 {
			t.Errorf("POST: %+v, asked %d times", g, silent.Load())
		}
		s = serve(t, p, "/", []string{nobody}, nil)
		if g := s.ask("GET /", nil, ""); g.status != 502 {
			t.Errorf("nobody: %+v", g)
		}
	})
}

// TestRetry: a request goes to another address for the causes of `retry` alone, if its method may
// be repeated.
func TestRetry(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p protocol) {
		for _, tt := range []struct {
			cause, said string
			hangs       bool
			plain       int // without retry
		}{
			{"cut", "", false, 502},
			{"timeout", "", true, 504},
			{"malformed", "Status: 20", false, 502},
			{"malformed", "Status: 20", true, 504},
			{"malformed", "no field\r\n\r\n", true, 502},
			{"404", "Status: 404\r\n\r\nbad", false, 404},
			{"500", "Status: 500\r\nContent-Length: 3\r\n\r\nbad", true, 500},
		} {
			for _, ask := range []struct {
				line, body string
				retry      []string
				asked      bool // the other address
			}{
				{"GET /", "", []string{tt.cause}, true},
				{"GET /", "", []string{"connect"}, false},
				{"POST /", "hello", []string{tt.cause}, false},
			} {
				done := make(chan bool)
				bad := application(t, p, "unix", func(r *request) {
					r.body()
					r.reply(tt.said)
					if tt.hangs {
						<-done
					}
				})
				good := application(t, p, "unix", func(r *request) { r.reply("Status: 200\r\n\r\ngood") })
				s := serve(t, p, "/", []string{bad, good + " backup"}, func(s *upstreams.Gateway) {
					s.Retry = ask.retry
					if tt.plain == 504 {
						s.ReadTimeout = 20 * time.Millisecond
					}
				})
				want := tt.plain
				if ask.asked {
					want = 200
				}
				if g := s.ask(ask.line, nil, ask.body); g.status != want || ask.asked != (g.body == "good") {
					t.Errorf("%s %q %v: %+v, want %d", ask.line, tt.said, ask.retry, g, want)
				}
				close(done)
			}
		}
	})
}

// TestServerFails: of two servers one hangs, behind the accept or within its head, is cut there, or
// answers garbage. Only max_fails requests meet it; for all others it is as if it were not there.
func TestServerFails(t *testing.T) {
	const cut = "cut"
	for _, said := range []string{"", "Status: 20", "Status: 20" + cut, "SSH-2.0-OpenSSH_9\r\n",
		"Status: x\r\n\r\n"} {
		t.Run(said, func(t *testing.T) {
			each(t, func(t *testing.T, p protocol) {
				release, hangs := make(chan struct{}), make(chan bool)
				var met atomic.Int32
				bad := application(t, p, "unix", func(r *request) {
					met.Add(1)
					text, cut := strings.CutSuffix(said, cut)
					r.reply(text)
					if said == "" || said == "Status: 20" {
						hangs <- true
					}
					if !cut {
						<-release
					}
				})
				good := application(t, p, "unix", func(r *request) { r.reply("Status: 200\r\n\r\nhello") })
				s := serve(t, p, "/", []string{bad, good}, func(s *upstreams.Gateway) {
					s.FailTimeout, s.ReadTimeout = time.Hour, wait.Patience
				})
				ask := func() got {
					c := s.Dial()
					defer c.Close()
					c.Send("GET / HTTP/1.1\r\nHost: test.example\r\n\r\n")
					answer := make(chan got, 1)
					go func() { answer <- readAnswer(c.R, "GET") }()
					select {
					case g := <-answer:
						return g
					case <-hangs:
						s.Skip(2 * wait.Patience)
						return <-answer
					}
				}
				failed := 0
				for range 100 {
					// An answer that has begun is not asked for again; its client gets an error.
					switch g := ask(); {
					case g.body == "hello":
					case g.status == 502 || g.status == 504:
						failed++
					default:
						t.Fatalf("%+v", g)
					}
				}
				if n := met.Load(); n != 3 || failed > 3 {
					t.Errorf("%d of 100 requests have met the server, %d have failed", n, failed)
				}
				close(release)
			})
		})
	}
}

// TestBodilessEnds: an answer that has no body ends with its head, though the application holds the
// connection.
func TestBodilessEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p protocol) {
		release := make(chan struct{})
		defer close(release)
		s := serve(t, p, "/", []string{application(t, p, "unix", func(r *request) {
			r.reply("Status: " + r.get("QUERY_STRING") + "\r\n\r\n")
			<-release
		})}, nil)
		c := s.Dial() // each has to be over before the next one is served
		for _, line := range []string{"HEAD /?200", "GET /?204", "GET /?304", "HEAD /?200"} {
			c.Send(line + " HTTP/1.1\r\nHost: a\r\n\r\n")
			method, status, _ := strings.Cut(line, " /?")
			if a := c.Answer(method); fmt.Sprint(a.StatusCode) != status {
				t.Errorf("%s: %s", line, a.Status)
			}
		}
	})
}

// TestLargeBodies moves 8 MiB both ways, of which neither side takes all before it gives some.
func TestLargeBodies(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			each(t, func(t *testing.T, p protocol) {
				body := string(modes.Noise(8 << 20))
				for _, buffering := range []bool{true, false} {
					s := serve(t, p, "/", []string{application(t, p, network, func(r *request) {
						r.reply("HTTP/1.1 200 OK\r\nContent-Length: " + r.get("CONTENT_LENGTH") + "\r\n\r\n")
						_, _ = io.Copy(r.Conn, io.LimitReader(r.r, 8<<20))
					})}, func(s *upstreams.Gateway) { s.RequestBuffering = buffering })
					if g := s.ask("POST /", nil, body); g.err != nil || g.status != 200 || g.body != body {
						t.Errorf("buffering %v: %d, %d bytes, %v", buffering, g.status, len(g.body), g.err)
					}
				}
			})
		})
	}
}

// TestStreams: what an application has said goes out when it pauses.
func TestStreams(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p protocol) {
		next := make(chan bool)
		s := serve(t, p, "/", []string{application(t, p, "unix", func(r *request) {
			r.reply("Content-Type: text/event-stream\r\n\r\n")
			for range 3 {
				r.reply("data: x\n\n")
				<-next
			}
		})}, nil)
		c := s.Dial()
		c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		for range 3 {
			for text := ""; !strings.Contains(text, "data: x\n"); {
				text += must.Get(c.R.ReadString('\n'))(t)
			}
			next <- true
		}
	})
}

// TestClientLeaves: the application's connection is closed with the client's.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p protocol) {
		asked, left := make(chan bool), make(chan error)
		s := serve(t, p, "/", []string{application(t, p, "tcp", func(r *request) {
			asked <- true
			_, err := r.r.ReadByte()
			left <- err
		})}, nil)
		c := s.Dial()
		c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		<-asked
		c.Close()
		if err := <-left; err == nil {
			t.Error("a byte has come")
		}
	})
}

// TestEarlyAnswer: an application that answers before it has read the body is heard.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p protocol) {
		s := serve(t, p, "/", []string{application(t, p, "unix", func(r *request) {
			r.reply("HTTP/1.1 413 No\r\nContent-Length: 3\r\n\r\nbig")
			_, _ = io.Copy(io.Discard, r.r)
		})}, nil)
		s.ask("POST /", nil, strings.Repeat("x", 1<<20)).check(t, "413", 413, "", "big")
	})
}

// inBackground is a server that has goroutines for checks, until the test ends.
type inBackground struct {
	around.None
	run func(func(context.Context))
}

func (b inBackground) Background(f func(context.Context)) { b.run(f) }

func background(t *testing.T) handlers.Process {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	return inBackground{run: func(f func(context.Context)) { running.Go(func() { f(ctx) }) }}
}

// TestHealth: checks ask the application, with the parameters of the route.
func TestHealth(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p protocol) {
		asked := make(chan string, 1)
		address := application(t, p, "unix", func(r *request) {
			select {
			case asked <- r.get("REQUEST_METHOD") + " " + r.get("SCRIPT_NAME") + "|" + r.get("PATH_INFO") +
				"?" +
				r.get("QUERY_STRING") + " " + r.get("HTTP_HOST") + " " + r.get("APP"):
			default:
			}
			r.reply("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup")
		})
		env := handlers.Env{Prefix: "/app", Process: background(t)}
		_, err := build(p, env, []string{address, address + "x"}, func(s *upstreams.Gateway) {
			s.Params = map[string]string{"APP": "mine"}
			s.Health.Path, s.Health.Body, s.Health.Interval = "/app/up?x", "up", 100*time.Millisecond
		})
		must.Do(t, err)
		select {
		case got := <-asked:
			if want := "GET /app|/up?x localhost mine"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		case <-time.After(wait.Patience):
			t.Error("no check")
		}
	})
}

// TestAccel: a file takes the place of the application's body.
func TestAccel(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p protocol) {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(dir+"/a.txt", []byte("of the file"), 0o644))
		s := serve(t, p, "/", []string{application(t, p, "unix", func(r *request) {
			r.reply("Status: 200\r\nX-Accel-Redirect: /a.txt\r\nContent-Type: text/x\r\n\r\nbody")
		})}, func(s *upstreams.Gateway) { s.AccelRoot = dir })
		s.ask("GET /", nil, "").check(t, "file", 200, "Content-Type: text/x\nX-Accel-Redirect: -",
			"of the file")
	})
}
