package stream_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
	"golang.org/x/sys/unix"
)

// TestCopyBetweenStreams copies from one peer through two streams to another, or back to the first,
// in bulk and in small pieces, and then the end of input. Bulk goes through a pipe.
func TestCopyBetweenStreams(t *testing.T) {
	bulk := chacha(10 << 20)
	copyN := func(n int64) func(io.Writer, io.Reader) (int64, error) {
		return func(w io.Writer, r io.Reader) (int64, error) { return io.CopyN(w, r, n) }
	}
	type reader struct{ io.Reader }
	type writer struct{ io.Writer }
	tests := map[string]struct {
		copy func(dst io.Writer, src io.Reader) (int64, error)
		want int // bytes
	}{
		"Copy":                   {io.Copy, len(bulk)},
		"CopyN":                  {copyN(3<<20 + 1), 3<<20 + 1},
		"CopyN, more than there": {copyN(11 << 20), len(bulk)},
		"by Read and Write": {func(w io.Writer, r io.Reader) (int64, error) {
			return io.Copy(writer{w}, reader{r})
		}, len(bulk)},
		"to a Writer": {func(w io.Writer, r io.Reader) (int64, error) {
			return io.Copy(writer{w}, r)
		}, len(bulk)},
		"from a Reader": {func(w io.Writer, r io.Reader) (int64, error) {
			return io.Copy(w, reader{r})
		}, len(bulk)},
	}
	for name, test := range tests {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(name+" "+network, func(t *testing.T) {
				onLoop(t, func(t *testing.T, l *loop.Loop) {
					from, src := pair(t, l, network)
					dst, to := pair(t, l, "tcp")
					l.Go(func(th *loop.Thread) {
						rest := bulk
						for n := 1; n < 3<<20; n *= 3 {
							_, _ = from.Write(rest[:n])
							rest = rest[n:]
							th.Yield()
						}
						_, _ = from.Write(rest)
						_ = from.CloseWrite()
					})
					l.Go(func(*loop.Thread) {
						n, err := test.copy(dst, src)
						if n != int64(test.want) || err != nil && err != io.EOF {
							t.Errorf("copied %d of %d, %v", n, test.want, err)
						}
						if n < int64(len(bulk)) { // what comes after the limit is still there
							rest, _ := io.ReadAll(src)
							if !bytes.Equal(rest, bulk[n:]) {
								t.Errorf("%d bytes are left, other than were sent", len(rest))
							}
						}
						_ = dst.Close()
						_ = src.Close()
					})
					l.Go(func(*loop.Thread) {
						got, err := io.ReadAll(to)
						if err != nil || sha256.Sum256(got) != sha256.Sum256(bulk[:test.want]) {
							t.Errorf("got %d bytes of %d, or others, %v", len(got), test.want, err)
						}
						_ = to.Close()
						_ = from.Close()
					})
				})
			})
		}
	}
}

// TestEchoIsExact copies a stream to itself while the peer reads late and little, and half-closes.
func TestEchoIsExact(t *testing.T) {
	for _, noWait := range []bool{false, true} {
		onLoop(t, func(t *testing.T, l *loop.Loop) {
			srv, err := stream.StartServer(l, "tcp", "127.0.0.1:0", -1, func(
				_ *loop.Thread, s *stream.Conn,
			) error {
				s.SetNoWait(noWait)
				_, err := io.Copy(s, s)
				return err
			})
			must.Do(t, err)
			data := chacha(6 << 20)
			l.Go(func(th *loop.Thread) {
				defer srv.Close()
				c, err := stream.Dial(th, time.Minute, "tcp", srv.Addr().String())
				must.Do(t, err)
				defer c.Close()
				th.Go(func(*loop.Thread) error {
					for rest, n := data, 1; len(rest) > 0; n = n*5%300_007 + 1 {
						k, err := c.Write(rest[:min(n, len(rest))])
						if err != nil {
							return err
						}
						rest = rest[k:]
					}
					return c.CloseWrite()
				})
				must.Do(t, th.Sleep(30*time.Millisecond)) // the echo cannot write all of it meanwhile
				got, err := io.ReadAll(c)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("got %d of %d bytes, or others, %v", len(got), len(data), err)
				}
			})
		})
	}
}

func TestSendfile(t *testing.T) {
	data := chacha(5 << 20)
	path := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(path, data, 0o600))
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		a, b := pair(t, l, "tcp")
		f, err := os.Open(path)
		must.Do(t, err)
		l.Go(func(*loop.Thread) {
			defer a.Close()
			defer f.Close()
			_, _ = f.Seek(10, io.SeekStart)
			if n, err := io.CopyN(a, f, 1<<20); n != 1<<20 || err != nil {
				t.Errorf("CopyN: %d, %v", n, err)
			}
			if at, _ := f.Seek(0, io.SeekCurrent); at != 10+1<<20 {
				t.Errorf("the file is at %d", at)
			}
			if n, err := io.Copy(a, f); n != int64(len(data))-10-1<<20 || err != nil {
				t.Errorf("the rest: %d, %v", n, err)
			}
			if n, err := io.Copy(a, f); n != 0 || err != nil {
				t.Errorf("at the end: %d, %v", n, err)
			}
			proc, err := os.Open("/proc/self/cmdline") // which sendfile refuses
			must.Do(t, err)
			if n, err := io.Copy(a, proc); n == 0 || err != nil {
				t.Errorf("a file in /proc: %d, %v", n, err)
			}
			_ = proc.Close()
			if _, err := io.Copy(a, proc); !errors.Is(err, os.ErrClosed) {
				t.Errorf("a closed file: %v", err)
			}
			_ = a.SetWriteDeadline(time.Now().Add(-1))
			_, err = io.Copy(a, f)
			wants(t, "deadline", err, loop.ErrDeadlineExceeded, "write")
		})
		l.Go(func(*loop.Thread) {
			got, err := io.ReadAll(b)
			cmdline, _ := os.ReadFile("/proc/self/cmdline")
			if err != nil || !bytes.Equal(got, append(data[10:len(data):len(data)], cmdline...)) {
				t.Errorf("got %d bytes, other than the file's, %v", len(got), err)
			}
			_ = b.Close()
		})
	})
}

// TestCopyErrors: a copy returns the error of either side, and what was copied until then.
func TestCopyErrors(t *testing.T) {
	broken := errors.New("broken")
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			a, b := pair(t, l, "tcp")
			defer a.Close()
			defer b.Close()
			n, err := io.Copy(a,
				io.MultiReader(strings.NewReader("12345"), iotest.ErrReader(broken)))
			if n != 5 || err != broken {
				t.Errorf("reader breaks: %d, %v", n, err)
			}
			n, err = io.Copy(writerFunc(func(p []byte) (int, error) { return 2, broken }), b)
			if n != 2 || err != broken {
				t.Errorf("writer breaks: %d, %v", n, err)
			}
			_ = b.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err = io.Copy(io.Discard, b)
			wants(t, "deadline", err, loop.ErrDeadlineExceeded, "read")
		})
		// In bulk: the destination takes no more, then it is isClosed.
		l.Go(func(th *loop.Thread) {
			from, src := pair(t, l, "tcp")
			dst, to := pair(t, l, "tcp")
			feed := th.Go(func(*loop.Thread) error {
				_, err := from.Write(make([]byte, 64<<20))
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("feed: %v", err)
				}
				return nil
			})
			_ = dst.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			_, err := io.Copy(dst, src)
			wants(t, "nobody reads", err, loop.ErrDeadlineExceeded, "write")
			_ = dst.SetWriteDeadline(time.Time{})
			_ = to.Close()
			_, err = io.Copy(dst, src)
			if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				t.Errorf("the destination is gone: %v", err)
			}
			for _, s := range []*stream.Conn{from, src, dst} {
				_ = s.Close()
			}
			_, _ = feed.End().Await(th, -1)
		})
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestCopyWithoutDescriptors: no descriptors are left for a pipe, and bulk is copied all the same.
func TestCopyWithoutDescriptors(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		from, src := pair(t, l, "tcp")
		dst, to := pair(t, l, "tcp")
		data := chacha(2 << 20)
		l.Go(func(*loop.Thread) {
			_, _ = from.Write(data)
			_ = from.Close()
		})
		l.Go(func(*loop.Thread) {
			defer noDescriptors(t)()
			n, err := io.Copy(dst, src)
			if n != int64(len(data)) || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			_ = dst.Close()
			_ = src.Close()
		})
		l.Go(func(*loop.Thread) {
			got, err := io.ReadAll(to)
			if !bytes.Equal(got, data) || err != nil {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			_ = to.Close()
		})
	})
}

// TestKilledCopyLeavesNothing: the next copy does not get what was in the pipe of a copy whose
// thread was killed.
func TestKilledCopyLeavesNothing(t *testing.T) {
	secret, data := bytes.Repeat([]byte("secret"), 100_000), bytes.Repeat([]byte("a"), 1<<20)
	for turns := range 12 { // in one of these the copy yields with its pipe full
		l, err := loop.New(loop.Options{Logger: logtext.Quiet})
		must.Do(t, err)
		from, src := pair(t, l, "tcp")
		dst, to := pair(t, l, "tcp")
		l.Go(func(*loop.Thread) {
			defer from.Close()
			for err := error(nil); err == nil; {
				_, err = from.Write(secret)
			}
		})
		l.Go(func(*loop.Thread) {
			defer to.Close()
			_, _ = io.Copy(struct{ io.Writer }{io.Discard}, to)
		})
		l.Go(func(th *loop.Thread) {
			defer src.Close()
			defer dst.Close()
			th.Go(func(th *loop.Thread) error {
				for range turns {
					th.Yield()
				}
				l.Stop(0)
				return nil
			})
			_, _ = io.Copy(dst, src)
		})
		must.Do(t, l.Run())

		l, err = loop.New(loop.Options{})
		must.Do(t, err)
		from, src = pair(t, l, "tcp")
		dst, to = pair(t, l, "tcp")
		l.Go(func(*loop.Thread) {
			_, _ = from.Write(data)
			_ = from.Close()
		})
		l.Go(func(*loop.Thread) {
			if n, err := io.Copy(dst, src); n != int64(len(data)) || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			_ = dst.Close()
			_ = src.Close()
		})
		l.Go(func(*loop.Thread) {
			if got, err := io.ReadAll(to); !bytes.Equal(got, data) || err != nil {
				t.Errorf("killed after %d turns: %d bytes, or others, %v", turns, len(got), err)
			}
			_ = to.Close()
		})
		must.Do(t, l.Run())
	}
}

// noDescriptors leaves the process no descriptors, until restore.
func noDescriptors(t *testing.T) (restore func()) {
	var old unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: old.Max}))
	return func() { must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old)) }
}

// TestOneStreamDoesNotHoldItsLoop: other threads get their turns even if the stream never has to
// wait.
func TestOneStreamDoesNotHoldItsLoop(t *testing.T) {
	const total = 8 << 20
	path := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(path, make([]byte, total), 0o600))
	one := make([]byte, 1)
	ways := map[string]func(a, b *stream.Conn) (int64, error){
		"Write": func(a, _ *stream.Conn) (int64, error) {
			n, err := a.Write(make([]byte, total))
			return int64(n), err
		},
		"Send": func(a, _ *stream.Conn) (int64, error) {
			n, err := a.Send(make([]byte, total/2), make([]byte, total/2), false)
			return int64(n), err
		},
		"ReadFrom": func(a, _ *stream.Conn) (int64, error) {
			return a.ReadFrom(bytes.NewReader(make([]byte, total)))
		},
		"sendfile": func(a, _ *stream.Conn) (int64, error) {
			f, err := os.Open(path)
			must.Do(t, err)
			defer f.Close()
			return io.Copy(a, f)
		},
		"to and fro": func(a, b *stream.Conn) (n int64, err error) { // one thread, both ends
			for ; n < total && err == nil; n += total / 256 {
				if _, err = a.Write(one); err == nil {
					_, err = b.Read(one)
				}
			}
			return n, err
		},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			onLoop(t, func(t *testing.T, l *loop.Loop) {
				x, y := sockets(t, "unix")
				// Room for all of it; without the privilege there is less, and the peer reads it.
				_ = unix.SetsockoptInt(x, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 4*total)
				a, err := stream.New(l, x)
				must.Do(t, err)
				b, err := stream.New(l, y)
				must.Do(t, err)
				running, turns := true, 0
				l.Go(func(*loop.Thread) {
					if n, err := way(a, b); n != total || err != nil {
						t.Errorf("%d, %v", n, err)
					}
					running = false
					_ = a.Close()
				})
				l.Go(func(th *loop.Thread) {
					for ; running; turns++ {
						th.Yield()
					}
					if turns < 8 {
						t.Errorf("%d turns for others", turns)
					}
					_ = b.Close()
				})
				if name != "to and fro" {
					l.Go(func(*loop.Thread) { _, _ = io.Copy(io.Discard, b) })
				}
			})
		})
	}
}
