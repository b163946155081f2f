package stream_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
	"golang.org/x/sys/unix"
)

func TestStreamIsANetConn(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		onLoop(t, func(t *testing.T, l *loop.Loop) {
			a, b := pair(t, l, network)
			l.Go(func(*loop.Thread) {
				defer a.Close()
				if a.LocalAddr().Network() != network ||
					a.LocalAddr().String() != b.RemoteAddr().String() ||
					a.RemoteAddr().String() != b.LocalAddr().String() {
					t.Errorf("addresses: %v-%v, %v-%v",
						a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
				}
				if n, err := a.Write(nil); n != 0 || err != nil {
					t.Errorf("empty write: %d, %v", n, err)
				}
				_, _ = io.WriteString(a, "hello, ")
				n, err := a.Send([]byte("wo"), []byte("rld"), false)
				if n != 5 || err != nil {
					t.Errorf("send: %d, %v", n, err)
				}
				must.Do(t, a.CloseWrite())
				answer, err := io.ReadAll(a)
				if string(answer) != "HELLO, WORLD" || err != nil {
					t.Errorf("answer %q, %v", answer, err)
				}
			})
			l.Go(func(*loop.Thread) {
				if n, err := b.Read(nil); n != 0 || err != nil {
					t.Errorf("empty read: %d, %v", n, err)
				}
				question, err := io.ReadAll(b)
				if err != nil {
					t.Error(err)
				}
				for range 2 {
					if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
						t.Errorf("after the end: %d, %v", n, err)
					}
				}
				_, _ = b.Write(bytes.ToUpper(question))
				must.Do(t, b.Close())
			})
		})
	}
}

// Every way of writing sends the bytes unchanged, however many the peer takes at a time.
func TestStreamWritesAreExact(t *testing.T) {
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(i >> 8 * i)
	}
	var pieces [][]byte
	for rest, n := data, 0; len(rest) > 0; n = (n*7 + 1) % 5003 {
		k := min(n, len(rest))
		pieces = append(pieces, rest[:k])
		rest = rest[k:]
	}
	writes := map[string]func(s *stream.Conn) (int64, error){
		"Write": func(s *stream.Conn) (int64, error) {
			n, err := s.Write(data)
			return int64(n), err
		},
		"Send": func(s *stream.Conn) (sent int64, err error) {
			for i := 0; i < len(pieces) && err == nil; i += 3 {
				var n int
				if i+1 < len(pieces) {
					n, err = s.Send(pieces[i], pieces[i+1], true)
				} else {
					n, err = s.Send(nil, pieces[i], true)
				}
				sent += int64(n)
				if i+2 < len(pieces) && err == nil {
					n, err = s.Send(pieces[i+2], nil, false)
					sent += int64(n)
				}
			}
			return sent, err
		},
		"Send in halves": func(s *stream.Conn) (int64, error) {
			n, err := s.Send(data[:len(data)/2], data[len(data)/2:], false)
			return int64(n), err
		},
		"ReadFrom": func(s *stream.Conn) (int64, error) {
			return s.ReadFrom(bytes.NewReader(data))
		},
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			onLoop(t, func(t *testing.T, l *loop.Loop) {
				a, b := pair(t, l, "tcp")
				l.Go(func(*loop.Thread) {
					n, err := write(a)
					if n != int64(len(data)) || err != nil {
						t.Errorf("wrote %d of %d, %v", n, len(data), err)
					}
					_ = a.Close()
				})
				l.Go(func(th *loop.Thread) {
					got, buf := []byte(nil), make([]byte, 50_000)
					for {
						n, err := b.Read(buf[:1+len(got)%len(buf)])
						got = append(got, buf[:n]...)
						if err != nil {
							break
						}
					}
					if !bytes.Equal(got, data) {
						t.Errorf("got %d bytes, other than written", len(got))
					}
					_ = b.Close()
				})
			})
		})
	}
}

// One thread reads while another one writes; a third is refused. The writer goes on when the reader
// is isClosed.
func TestStreamHasOneReaderAndOneWriter(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		a, b := pair(t, l, "unix")
		var filled, read loop.Promise[int]
		l.Go(func(*loop.Thread) {
			defer read.Resolve(0)
			buf := make([]byte, 3)
			if _, err := io.ReadFull(a, buf); string(buf) != "abc" || err != nil {
				t.Errorf("reader: %q, %v", buf, err)
			}
		})
		l.Go(func(th *loop.Thread) {
			fill(a)
			filled.Resolve(0)
			if n, err := a.Write(make([]byte, 1<<20)); n != 1<<20 || err != nil {
				t.Errorf("writer: %d, %v", n, err)
			}
			_, _ = read.Await(th, -1)
			_ = a.Close()
		})
		l.Go(func(th *loop.Thread) {
			_, _ = filled.Await(th, -1)
			_, err := a.Read(make([]byte, 1))
			wants(t, "second reader", err, loop.ErrAwaited, "read")
			_, err = a.Write(make([]byte, 16<<20))
			wants(t, "second writer", err, loop.ErrAwaited, "write")
			_, _ = b.Write([]byte("abc"))
			if _, err := io.Copy(io.Discard, b); err != nil {
				t.Error(err)
			}
			_ = b.Close()
		})
	})
}

func TestCloseEndsWaits(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		a, b := pair(t, l, "unix")
		var ready, ended loop.Promise[int]
		l.Go(func(*loop.Thread) {
			_, err := a.Read(make([]byte, 1))
			wants(t, "Read", err, net.ErrClosed, "read")
			ended.Resolve(0)
		})
		l.Go(func(*loop.Thread) {
			fill(a)
			ready.Resolve(0)
			_, err := a.Write(make([]byte, 16<<20))
			wants(t, "Write", err, net.ErrClosed, "write")
		})
		l.Go(func(th *loop.Thread) {
			_, _ = ready.Await(th, -1)
			must.Do(t, a.Close())
			_, _ = ended.Await(th, -1)
			_, err := a.Read(make([]byte, 1))
			wants(t, "Read after Close", err, net.ErrClosed, "read")
			_, err = a.Write(make([]byte, 1))
			wants(t, "Write after Close", err, net.ErrClosed, "write")
			if _, err = a.Send([]byte{1}, nil, false); err != net.ErrClosed {
				t.Errorf("Send after Close: %v", err)
			}
			if _, err = a.TryRead(make([]byte, 1)); err != net.ErrClosed {
				t.Errorf("TryRead after Close: %v", err)
			}
			if err = a.AwaitInput(); err != net.ErrClosed {
				t.Errorf("AwaitInput after Close: %v", err)
			}
			if _, err = a.SendFile(0, 0, 1); err != net.ErrClosed {
				t.Errorf("SendFile after Close: %v", err)
			}
			_, err = io.Copy(io.Discard, a)
			wants(t, "WriteTo after Close", err, net.ErrClosed, "read")
			_, err = a.Detach()
			wants(t, "Detach after Close", err, net.ErrClosed, "detach")
			wants(t, "SetDeadline after Close", a.SetDeadline(time.Now()), net.ErrClosed, "set")
			wants(t, "CloseWrite after Close", a.CloseWrite(), net.ErrClosed, "close")
			wants(t, "second Close", a.Close(), net.ErrClosed, "close")
			if a.LocalAddr() == nil || a.RemoteAddr() == nil {
				t.Error("no addresses after Close")
			}
			must.Do(t, b.Close())
		})
	})
}

func TestPeerErrors(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			reset := func() (s *stream.Conn) {
				x, y := sockets(t, "tcp")
				s, err := stream.New(l, x)
				must.Do(t, err)
				must.Do(t, unix.SetsockoptLinger(
					y, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
				unix.Close(y)
				return s
			}
			s := reset()
			_, err := s.Read(make([]byte, 1))
			wants(t, "read", err, syscall.ECONNRESET, "read")
			must.Do(t, s.Close())

			s = reset()
			_, err = s.Write(make([]byte, 1))
			wants(t, "write", err, syscall.ECONNRESET, "write")
			_, err = s.Write(make([]byte, 1))
			wants(t, "write again", err, syscall.EPIPE, "write")
			must.Do(t, s.Close())
		})
	})
}

// TestWaitsEndForTheThread: a wait ends when the client of the thread that waits leaves, and when
// the thread's scope is canceled. Nothing is left of the wait.
func TestWaitsEndForTheThread(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		up, far := pair(t, l, "tcp")
		waiting, over := new(loop.Promise[int]), new(loop.Promise[int])
		srv, err := stream.StartServer(l, "tcp", "127.0.0.1:0", -1, func(
			th *loop.Thread, s *stream.Conn,
		) error {
			waiting.Resolve(0)
			_, err := up.Read(make([]byte, 1))
			wants(t, "the client left", err, loop.ErrClientGone, "read")
			fill := make([]byte, 64<<20)
			_, err = up.Write(fill)
			wants(t, "the client has left", err, loop.ErrClientGone, "write")
			over.Resolve(0)
			return io.EOF
		})
		must.Do(t, err)
		l.Go(func(th *loop.Thread) {
			c, err := stream.Dial(th, time.Minute, "tcp", srv.Addr().String())
			must.Do(t, err)
			_, _ = c.Write([]byte("x"))
			_, _ = waiting.Await(th, -1)
			_ = c.Close()
			_, _ = over.Await(th, -1)
			_ = srv.Close()

			th.Go(func(*loop.Thread) error {
				_, err := up.Read(make([]byte, 1))
				wants(t, "canceled", err, loop.ErrCanceled, "read")
				return nil
			})
			th.Yield()
			th.Cancel()
			_ = th.Join()

			killed := l.Go(func(*loop.Thread) {
				defer up.Close()
				_, _ = up.Read(make([]byte, 1))
				t.Error("a killed thread goes on")
			})
			th.Yield()
			l.Stop(0)
			_ = killed
			_ = th.Sleep(time.Hour)
		})
		_ = far
	})
}

func TestNoWait(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		a, b := pair(t, l, "tcp")
		l.Go(func(th *loop.Thread) {
			defer a.Close()
			a.SetNoWait(true)
			buf := make([]byte, 2)
			readable := a.Readable()
			next := func() string {
				for {
					n, err := a.Read(buf)
					if err == nil {
						return string(buf[:n])
					}
					var ne net.Error
					//lint:ignore SA1019 gorilla/websocket asks for it
					if !errors.As(err, &ne) || ne.Timeout() || !ne.Temporary() ||
						!errors.Is(err, stream.ErrWouldBlock) {
						return err.Error()
					}
					if _, err := th.AwaitAny(time.Minute, readable); err != nil {
						return err.Error()
					}
				}
			}
			got := ""
			for len(got) < len("abcde") {
				got += next()
			}
			if got != "abcde" {
				t.Errorf("read %q", got)
			}
			if n, err := io.Copy(io.Discard, a); n != 0 || err != stream.ErrWouldBlock {
				t.Errorf("copy: %d, %v", n, err)
			}
			a.SetNoWait(false)
			_, _ = a.Write([]byte("go on"))
			if end := next(); end != "f" {
				t.Errorf("waiting again: %q", end)
			}
			a.SetNoWait(true)
			if end := next(); end != "EOF" {
				t.Errorf("end: %q", end)
			}
		})
		l.Go(func(th *loop.Thread) {
			defer b.Close()
			for _, s := range strings.Fields("a bcd e") {
				_, _ = io.WriteString(b, s)
				_ = th.Sleep(2 * time.Millisecond)
			}
			_, _ = io.ReadFull(b, make([]byte, len("go on")))
			_, _ = io.WriteString(b, "f")
		})
	})
}

// TestForeignGoroutines: other goroutines must not use a stream. Without the invariants tag only
// luck could tell; with it, the call panics.
func TestForeignGoroutines(t *testing.T) {
	l, err := loop.New(loop.Options{})
	must.Do(t, err)
	a, b := pair(t, l, "tcp")
	if _, err := a.Read(make([]byte, 1)); err == nil {
		t.Error("a read waited without a thread")
	}
	asked := make(chan string)
	l.Go(func(th *loop.Thread) {
		defer a.Close()
		defer b.Close()
		if !invariants.Enabled {
			return
		}
		for _, use := range []func(){
			func() { _, _ = a.Read(nil) },
			func() { _, _ = a.Write(nil) },
			func() { _ = a.SetDeadline(time.Time{}) },
			func() { _ = a.Close() },
			func() { _, _ = a.Detach() },
		} {
			go func() {
				defer func() { p, _ := recover().(string); asked <- p }()
				use()
			}()
			// This thread holds its loop meanwhile.
			if p := <-asked; !strings.Contains(p, "goroutine") {
				t.Errorf("panic %q", p)
			}
		}
	})
	must.Do(t, l.Run())
}

// TestOwnTwice: Own keeps what a Conn has, so it takes none that was used. The invariants tag
// tells.
func TestOwnTwice(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			var s stream.Conn
			own := func() (p any) {
				defer func() { p = recover() }()
				s.Own(th, netip.AddrPort{})
				return nil
			}
			first, second := own(), own()
			s = stream.Conn{}
			if again := own(); first != nil || (second != nil) != invariants.Enabled || again != nil {
				t.Errorf("first %v, second %v, emptied %v", first, second, again)
			}
		})
	})
}
