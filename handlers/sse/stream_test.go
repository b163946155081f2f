package sse_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"golang.org/x/sys/unix"
)

// get sends a request, given by its first line, and reads the head of the answer.
func get(s *server.Server, line string, fields ...string) (*http.Response, *server.Client) {
	s.T.Helper()
	c := s.Dial()
	c.Send(strings.Join(append([]string{line, "Host: x"}, fields...), "\r\n") + "\r\n\r\n")
	method, _, _ := strings.Cut(line, " ")
	resp := must.Get(http.ReadResponse(c.R, &http.Request{Method: method}))(s.T)
	return resp, c
}

// expect reads the stream until it has these events, and reports their comments.
func expect(t *testing.T, body io.Reader, want ...dispatched) {
	t.Helper()
	var got strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := body.Read(buf) // which may give the last bytes and io.EOF at once
		got.Write(buf[:n])
		events := parse(got.String()).events
		if slices.Equal(events, want) {
			return
		}
		if err != nil {
			t.Fatalf("got %+v, %v, want %+v", events, err, want)
		}
	}
}

func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(wait.Patience):
		t.Fatalf("%s: nothing has come", what)
		panic("not reached")
	}
}

// The client has the head before there is any event, and each event as soon as it is sent. When it
// leaves, the handler's wait ends.
func TestStream(t *testing.T) {
	both(t, func(t *testing.T, start begin) {
		room, ends := new(pubsub.Hub).Topic("room"), make(chan error, 1)
		s := start(conn.Limits{}, func(req *conn.Request, resp *conn.Response) talk {
			resp.Header().Set("X-Mine", "kept")
			return talk{room: room, ends: ends, said: func(s *sse.Stream, m *pubsub.Message) error {
				e := sse.Event{ID: "1", Data: m.Data}
				switch string(m.Data) {
				case "lost":
					e.Name = "bad\nname"
				case "goes on":
					e = sse.Event{Name: "good", Data: m.Data}
				}
				err := s.Send(e)
				if errors.Is(err, sse.ErrEvent) {
					err = s.Comment("refused")
				}
				return err
			}}
		})
		resp, c := get(s, "GET / HTTP/1.1")
		for name, want := range map[string]string{"Content-Type": "text/event-stream",
			"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Mine": "kept"} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
		s.Settle()
		room.Publish([]byte("one\r\ntwo"))
		expect(t, resp.Body, dispatched{"1", "message", "one\ntwo"})
		room.Publish([]byte("lost"))
		room.Publish([]byte("goes on"))
		expect(t, resp.Body, dispatched{"", "good", "goes on"})
		s.Settle() // it waits again
		c.Close()
		err := receive(t, ends, "the end")
		// The client has the event, but with writes that are shortened perhaps not yet the end of
		// its chunk, and then it is a write that fails.
		if !errors.Is(err, loop.ErrClientGone) && !(invariants.Enabled &&
			(errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET))) {
			t.Errorf("ended with %v", err)
		}
	}, modes.Plain, modes.Direct, modes.OverTLS, modes.HTTP2)
}

// Without a keep-alive there are no comments, and no loop that sends them as fast as the client
// reads.
func TestNoKeepAlive(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		for _, keepAlive := range []time.Duration{0, -1} { // by default it is longer than the test
			s := server.Start(t, m, conn.Config{Handler: func(req *conn.Request,
				resp *conn.Response) int {
				stream, err := sse.Open(req, resp)
				if err != nil {
					return 200
				}
				stream.KeepAlive = keepAlive
				if i, err := stream.AwaitAny(50*time.Millisecond,
					new(loop.Promise[int])); i != -1 || err != loop.ErrDeadlineExceeded {
					t.Errorf("source %d, %v", i, err)
				}
				if i, err := stream.AwaitAny(-1, req.After(50*time.Millisecond)); i != 0 ||
					err != nil {
					t.Errorf("source %d, %v", i, err)
				}
				_ = stream.Send(sse.Event{Data: []byte("end")})
				return 200
			}})
			resp, _ := get(s, "GET / HTTP/1.1")
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "data: end\n\n" {
				t.Errorf("got %d bytes, %.50q, %v", len(body), body, err)
			}
		}
	}, modes.Plain, modes.Direct)
}

// Without anything to send comments go out, which change neither the limit of a wait nor the
// events.
func TestKeepAlive(t *testing.T) {
	const limit = 100 * time.Millisecond
	ended := make(chan error, 1)
	s := server.Start(t, modes.Plain,
		conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			stream, err := sse.Open(req, resp)
			if err != nil {
				return 200
			}
			stream.KeepAlive = limit / 10
			time.Sleep(limit / 2) // a wait counts from its call, and not from the loop's turn
			began := time.Now()
			_, err = stream.AwaitAny(limit)
			// the loop's clock has whole milliseconds
			if d := time.Since(began); d < limit-2*time.Millisecond {
				t.Errorf("waited for %v only", d)
			}
			ended <- err
			stream.KeepAlive = -1
			best := time.Hour // on a busy machine any wait may be long
			for try := 0; try < 20 && best > limit/4; try++ {
				time.Sleep(limit / 2)
				began = time.Now()
				_, _ = stream.AwaitAny(0)
				best = min(best, time.Since(began))
			}
			if best > limit/4 {
				t.Errorf("looked for %v", best)
			}
			_ = stream.Send(sse.Event{Data: []byte("over")})
			return 200
		}})
	resp, _ := get(s, "GET / HTTP/1.1")
	all := must.Get(io.ReadAll(resp.Body))(t)
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("ended with %v", err)
	}
	p := parse(string(all))
	if n := len(p.comments); n < 1 || n > 10 {
		t.Errorf("%d comments in %q", n, all)
	}
	if want := []dispatched{{"", "message", "over"}}; !slices.Equal(p.events, want) {
		t.Errorf("got %+v", p.events)
	}
}

func TestLastEventID(t *testing.T) {
	both(t, func(t *testing.T, start begin) {
		s := start(conn.Limits{}, func(*conn.Request, *conn.Response) talk {
			return talk{open: func(s *sse.Stream) { _ = s.Send(sse.Event{Data: []byte(s.LastEventID())}) }}
		})
		for _, c := range []struct{ sent, want, why string }{
			{"1732190000000-0", "1732190000000-0", ""},
			{"caf\u00e9", "caf\u00e9", "UTF-8, as browsers send it"},
			{"caf\xe9", "", "no UTF-8"},
			{strings.Repeat("x", 256), strings.Repeat("x", 256), "the longest"},
			{strings.Repeat("x", 257), "", "longer than any that was sent"},
			{"", "", "none"},
		} {
			resp, _ := get(s, "GET / HTTP/1.1", "Last-Event-ID: "+c.sent)
			all, err := io.ReadAll(resp.Body)
			if p := parse(string(all)); err != nil || len(p.events) != 1 || p.events[0].data != c.want {
				t.Errorf("%.20q (%s): got %.100q, %v", c.sent, c.why, all, err)
			}
		}
	}, modes.Plain, modes.OverTLS, modes.HTTP2)
}

// HEAD has the fields of GET, and the connection goes on.
func TestHead(t *testing.T) {
	both(t, func(t *testing.T, start begin) {
		s := start(conn.Limits{}, func(req *conn.Request, resp *conn.Response) talk {
			head := req.Method() == "HEAD"
			return talk{open: func(s *sse.Stream) {
				if head {
					t.Error("a stream for HEAD")
				}
			}}
		})
		resp, c := get(s, "HEAD / HTTP/1.1")
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" ||
			resp.Close {
			t.Errorf("got %+v", resp)
		}
		if a := c.Do("GET", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); a.StatusCode != 200 {
			t.Errorf("then %s", a.Status)
		}
	}, modes.Plain, modes.OverTLS, modes.HTTP2)
}

// An HTTP/1.0 client knows no chunks: the connection's end is the stream's.
func TestOldClient(t *testing.T) {
	both(t, func(t *testing.T, start begin) {
		s := start(conn.Limits{}, func(*conn.Request, *conn.Response) talk {
			return talk{open: func(s *sse.Stream) { _ = s.Send(sse.Event{Data: []byte("old")}) }}
		})
		resp, _ := get(s, "GET / HTTP/1.0", "Connection: keep-alive")
		all, err := io.ReadAll(resp.Body)
		if string(all) != "data: old\n\n" || err != nil || !resp.Close {
			t.Errorf("got %q, %v, close %v", all, err, resp.Close)
		}
	}, modes.Plain, modes.OverTLS)
}

// A client that never reads does not hold the handler for longer than write_timeout, and no memory
// beyond the kernel's: neither what is sent without a pause, nor what comes from a topic.
func TestNeverReads(t *testing.T) {
	both(t, func(t *testing.T, start begin) {
		room, ends, begun := new(pubsub.Hub).Topic("room"), make(chan error, 1), make(chan struct{}, 1)
		s := start(conn.Limits{WriteTimeout: 50 * time.Millisecond},
			func(req *conn.Request, resp *conn.Response) talk {
				if req.Path() == "/room" {
					return talk{room: room, ends: ends,
						open: func(*sse.Stream) { begun <- struct{}{} },
						said: func(s *sse.Stream, m *pubsub.Message) error {
							begun <- struct{}{}
							return s.Send(sse.Event{Data: m.Data})
						}}
				}
				return talk{open: func(s *sse.Stream) {
					var err error
					data := make([]byte, 100<<10)
					for sent := 0; err == nil; sent++ {
						if sent == 1000 {
							t.Error("100 MB have gone to a client that does not read")
							break
						}
						err = s.Send(sse.Event{Data: data})
					}
					ends <- err
				}}
			})
		for _, path := range []string{"/", "/room"} {
			get(s, "GET "+path+" HTTP/1.1")
			for ended := false; !ended; {
				select {
				case <-begun:
					room.Publish(make([]byte, 512<<10))
				case err := <-ends:
					if ended = true; !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("%s: ended with %v", path, err)
					}
				case <-time.After(wait.Patience):
					t.Fatal("no end")
				}
			}
		}
	}, modes.Plain, modes.OverTLS, modes.HTTP2)
}

// A stream that is behind while the hub has no room for more misses the oldest, and others nothing.
func TestHubAtItsLimit(t *testing.T) {
	both(t, func(t *testing.T, start begin) {
		const size, many = 1000, 60
		hub := &pubsub.Hub{Limits: pubsub.Limits{Bytes: 16 * size}}
		room := hub.Topic("room")
		gate, at := new(loop.Promise[int]), make(chan struct{}, 2)
		s := start(conn.Limits{}, func(req *conn.Request, _ *conn.Response) talk {
			waits := req.Path() == "/behind"
			return talk{room: room, open: func(*sse.Stream) { at <- struct{}{} },
				said: func(s *sse.Stream, m *pubsub.Message) error {
					if waits {
						waits = false
						at <- struct{}{}
						_, _ = gate.Await(s.Thread(), -1)
					}
					return s.Send(sse.Event{Data: m.Data[:2]})
				}}
		})
		behind, _ := get(s, "GET /behind HTTP/1.1")
		other, _ := get(s, "GET /other HTTP/1.1")
		<-at
		<-at
		for i := range many {
			text := fmt.Sprintf("%02d", i)
			room.Publish(fmt.Appendf(nil, "%s%*s", text, size-2, ""))
			expect(t, other.Body, dispatched{name: "message", data: text})
			if i == 0 {
				<-at
			}
		}
		gate.Resolve(0)
		lines := bufio.NewScanner(behind.Body)
		for next := 0; next < many; {
			if !lines.Scan() {
				t.Fatalf("no message %d", next)
			}
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				i, err := strconv.Atoi(text)
				if dropped := next == 1; err != nil || dropped && i < many/2 || !dropped && i != next {
					t.Fatalf("got %q, want %d", text, next)
				}
				next = i + 1
			}
		}
	}, modes.Plain, modes.OverTLS, modes.HTTP2)
}

// At a stop a stream ends in order, though its source has always something to give.
func TestStop(t *testing.T) {
	both(t, func(t *testing.T, start begin) {
		ends := make(chan error, 1)
		var hub pubsub.Hub
		s := start(conn.Limits{}, func(req *conn.Request, resp *conn.Response) talk {
			path := req.Path()
			room := hub.Topic(path)
			return talk{room: room, ends: ends,
				open: func(s *sse.Stream) {
					if path == "/busy" {
						room.Publish([]byte("busy"))
					}
				},
				said: func(s *sse.Stream, m *pubsub.Message) error {
					room.Publish([]byte("busy"))
					return s.Send(sse.Event{Data: m.Data})
				}}
		})
		quiet, _ := get(s, "GET /quiet HTTP/1.1")
		busy, _ := get(s, "GET /busy HTTP/1.1")
		read := make(chan error)
		for _, resp := range []*http.Response{quiet, busy} {
			go func() {
				_, err := io.Copy(io.Discard, resp.Body)
				read <- err
			}()
		}
		s.All[0].Stop(wait.Patience)
		for range 2 {
			if err := receive(t, ends, "the end"); err != http.ErrServerClosed {
				t.Errorf("ended with %v", err)
			}
			if err := <-read; err != nil {
				t.Errorf("the body is not complete: %v", err)
			}
		}
	}, modes.Plain, modes.Direct, modes.OverTLS, modes.HTTP2)
}

// Neither sending an event nor waiting for one allocates.
func TestAllocations(t *testing.T) {
	allocs := make(chan float64, 1)
	s := server.Start(t, modes.Plain,
		conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			stream, err := sse.Open(req, resp)
			if err != nil {
				return 200
			}
			now, data := req.After(0), []byte(strings.Repeat("text\n", 20))
			allocs <- testing.AllocsPerRun(500, func() {
				if _, err := stream.AwaitAny(-1, now); err != nil {
					t.Error(err)
				}
				if err := stream.Send(sse.Event{ID: "1", Name: "name", Data: data}); err != nil {
					t.Error(err)
				}
			})
			return 200
		}})
	resp, _ := get(s, "GET / HTTP/1.1")
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body,
		make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	// what the client reads may allocate now and then
	if n := receive(t, allocs, "the count"); n >= 1 && !race.Enabled { // its pools drop some
		t.Errorf("%v allocations for an event", n)
	}
}
