package loop_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// got returns what there is to read.
func got(fd int) string {
	var all []byte
	for buf := make([]byte, 4096); ; {
		n, err := unix.Read(fd, buf)
		if n <= 0 || err != nil {
			return string(all)
		}
		all = append(all, buf[:n]...)
	}
}

// pairOf returns one of two connected sockets, as l knows it, and the other one.
func pairOf(t *testing.T, l *loop.Loop) (d *loop.Shared, peer int) {
	t.Helper()
	fds := socketpair(t)
	d = new(loop.Shared)
	must.Do(t, l.Layer().Register(d, fds[0]))
	return d, fds[1]
}

// putOff puts text off, for which there is room.
func putOff(t *testing.T, l *loop.Loop, d *loop.Descriptor, text string) {
	t.Helper()
	if !l.Layer().PutOff(d, []byte(text)) {
		t.Errorf("%q was not put off", text)
	}
}

// inTurns yields until done, once a turn.
func inTurns(t *testing.T, th *loop.Thread, what string, done func() bool) {
	t.Helper()
	for over := time.Now().Add(time.Minute); !done(); th.Yield() {
		if time.Now().After(over) {
			t.Errorf("%s does not come", what)
			return
		}
	}
}

// insist repeats a call until it finds room.
func insist(t *testing.T, th *loop.Thread, call func() syscall.Errno) (errno syscall.Errno) {
	t.Helper()
	inTurns(t, th, "room", func() bool {
		errno = call()
		return errno != unix.EAGAIN
	})
	return errno
}

// settled waits until what was put off for d has gone out. Only with the invariants tag that takes
// more than a turn.
func settled(t *testing.T, th *loop.Thread, d *loop.Descriptor) {
	t.Helper()
	th.Yield()
	inTurns(t, th, "room", func() bool { return !d.HasRemainder() })
}

// TestPutOff: what is put off goes out behind the threads of the turn, or when there is too much of
// it.
func TestPutOff(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		d, peer := pairOf(t, l)
		ran := false
		l.Go(func(th *loop.Thread) {
			defer l.Layer().CloseDescriptor(&d.Descriptor)
			putOff(t, l, &d.Descriptor, "one two")
			if text := got(peer); text != "" {
				t.Errorf("%q was sent at once", text)
			}
			if n := d.Unsent(); n != len("one two") {
				t.Errorf("%d bytes are unsent", n)
			}
			settled(t, th, &d.Descriptor)
			if text := got(peer); text != "one two" || !ran {
				t.Errorf("got %q behind the turn, another thread has run: %v", text, ran)
			}
			var all []*loop.Shared
			var peers []int
			for range loop.PutOffMost + 1 {
				d, peer := pairOf(t, l)
				all, peers = append(all, d), append(peers, peer)
				putOff(t, l, &d.Descriptor, "six")
			}
			last := len(all) - 1
			for i, peer := range peers {
				if text := got(peer); (text == "six") != (i < last) && !all[i].HasRemainder() {
					t.Errorf("got %q from socket %d of %d", text, i, last)
				}
			}
			for _, d := range all {
				l.Layer().CloseDescriptor(&d.Descriptor)
			}
			if text := got(peers[last]); text != "six" {
				t.Errorf("got %q at the end", text)
			}
		})
		l.Go(func(th *loop.Thread) {
			ran = true
			if text := got(peer); text != "" {
				t.Errorf("%q was sent before the end of the turn", text)
			}
		})
		mustRun(t, l)
	})
}

// TestMayPutOff: putting off gains something in a turn that begins with several events.
func TestMayPutOff(t *testing.T) {
	for events, may := range map[int]bool{1: false, 7: false, 8: true, 64: true} {
		run(t, func(t *testing.T, l *loop.Loop) {
			var peers []int
			for range events {
				d, peer := pairOf(t, l)
				peers = append(peers, peer)
				l.Go(func(th *loop.Thread) {
					defer l.Layer().CloseDescriptor(&d.Descriptor)
					must.Do(t, d.AwaitRead(th, time.Minute))
					if got := l.Layer().MayPutOff(); got != (may || invariants.Enabled) {
						t.Errorf("%d events: %v", events, got)
					}
				})
			}
			l.Go(func(*loop.Thread) { // behind the others, which wait
				for _, peer := range peers {
					must.Get(unix.Write(peer, []byte("x")))(t)
				}
			})
			mustRun(t, l)
		})
	}
}

// TestPutOffFirst: nothing that is done to a socket overtakes what was put off.
func TestPutOffFirst(t *testing.T) {
	path := t.TempDir() + "/file"
	must.Do(t, os.WriteFile(path, []byte("file"), 0o600))
	text := must.Get(os.Open(path))(t)
	defer text.Close()
	var pipe [2]int
	must.Do(t, unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])

	for _, row := range []struct {
		what string
		call func(l *loop.Loop, d *loop.Descriptor) syscall.Errno
		want string
	}{
		{"another piece", func(l *loop.Loop, d *loop.Descriptor) syscall.Errno {
			if !l.Layer().PutOff(d, []byte(" more")) {
				return unix.EAGAIN
			}
			return 0
		}, " more"},
		{"Send", func(_ *loop.Loop, d *loop.Descriptor) syscall.Errno {
			_, errno := d.Send([]byte("s"), false)
			return errno
		}, "s"},
		{"Sendv", func(_ *loop.Loop, d *loop.Descriptor) syscall.Errno {
			_, errno := d.Sendv([]byte("v"), []byte("w"))
			return errno
		}, "v"}, // and w, but for short writes
		{"Sendfile", func(_ *loop.Loop, d *loop.Descriptor) syscall.Errno {
			var off int64
			_, errno := d.Sendfile(int(text.Fd()), &off, 4)
			return errno
		}, "file"},
		{"SpliceFrom", func(_ *loop.Loop, d *loop.Descriptor) syscall.Errno {
			_, errno := d.SpliceFrom(pipe[0], 4)
			return errno
		}, "pipe"},
		{"CloseWrite", func(_ *loop.Loop, d *loop.Descriptor) syscall.Errno {
			if err := d.CloseWrite(); err != nil {
				return err.(*os.SyscallError).Err.(syscall.Errno)
			}
			return 0
		}, ""},
		{"Rest", func(l *loop.Loop, d *loop.Descriptor) syscall.Errno {
			if _, ok := l.Layer().PutIdle(d); !ok {
				return unix.EAGAIN
			}
			l.Layer().Reuse(d)
			return 0
		}, ""},
		{"Release", func(l *loop.Loop, d *loop.Descriptor) syscall.Errno {
			unix.Close(l.Layer().Deregister(d))
			return 0
		}, ""},
		{"CloseDescriptor", func(l *loop.Loop, d *loop.Descriptor) syscall.Errno {
			l.Layer().CloseDescriptor(d)
			return 0
		}, ""},
	} {
		t.Run(row.what, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				must.Get(unix.Write(pipe[1], []byte("pipe")))(t)
				d, peer := pairOf(t, l)
				l.Go(func(th *loop.Thread) {
					putOff(t, l, &d.Descriptor, "first")
					if errno := insist(t, th, func() syscall.Errno {
						return row.call(l, &d.Descriptor)
					}); errno != 0 {
						t.Error(errno)
					}
					settled(t, th, &d.Descriptor)
					if text := got(peer); !strings.HasPrefix(text, "first"+row.want) {
						t.Errorf("got %q", text)
					}
					l.Layer().CloseDescriptor(&d.Descriptor)
				})
				mustRun(t, l)
				got(pipe[0])
				if s := l.Stats(); s.Lost != 0 || s.Remainders != 0 {
					t.Errorf("%d bytes lost, %d sockets with a remainder", s.Lost, s.Remainders)
				}
			})
		})
	}
}

// TestPutOffEnds: a thread that ends or is killed has its last words sent.
func TestPutOffEnds(t *testing.T) {
	for _, way := range []string{"ends", "is killed"} {
		run(t, func(t *testing.T, l *loop.Loop) {
			b := &task{}
			b.run = func(b *task) coro.Code {
				if l.Stopping() {
					return coro.Abort
				}
				l.Layer().PutOff(b.Thread.Layer().Descriptor(), []byte("last"))
				if way == "is killed" {
					l.Stop(0)
					return coro.WantRead
				}
				return coro.Abort
			}
			c := serve(t, l, b)
			end := start(t, l)
			must.Get(c.Write([]byte("x")))(t)
			var all bytes.Buffer
			_, _ = all.ReadFrom(c)
			if all.String() != "last" {
				t.Errorf("%s: the peer got %q", way, &all)
			}
			end()
		})
	}
}

// owing makes a socket that has no room for "rest", which was put off.
func owing(t *testing.T, l *loop.Loop, th *loop.Thread) (d *loop.Shared, peer int) {
	t.Helper()
	d, peer = pairOf(t, l)
	fill(d.FD())
	putOff(t, l, &d.Descriptor, "rest")
	th.Yield()
	if !d.HasRemainder() || l.Stats().Remainders == 0 {
		t.Error("there is room: the test shows nothing")
	}
	return d, peer
}

// TestPutOffWithoutRoom: what the kernel has no room for stays with the loop. The socket's calls
// find no room before it, and the loop sends it.
func TestPutOffWithoutRoom(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			d, peer := owing(t, l, th)
			if _, errno := d.Send([]byte("x"), false); errno != unix.EAGAIN {
				t.Errorf("Send: %v", errno)
			}
			if l.Layer().PutOff(&d.Descriptor, []byte("x")) {
				t.Error("another piece was put off")
			}
			if _, ok := l.Layer().PutIdle(&d.Descriptor); ok {
				t.Error("the socket is kept")
			}
			kernel := must.Get(unix.IoctlGetInt(d.FD(), unix.SIOCOUTQ))(t)
			if n := d.Unsent(); n != kernel+len("rest") {
				t.Errorf("%d bytes are unsent, of which the kernel has %d", n, kernel)
			}
			woken := false
			l.Go(func(th *loop.Thread) {
				must.Do(t, d.AwaitWrite(th, time.Minute))
				woken = true
				errno := insist(t, th, func() syscall.Errno {
					n, errno := d.Send([]byte("+"), false)
					if n == 0 && errno == 0 {
						t.Error("nothing was sent")
					}
					return errno
				})
				if errno != 0 {
					t.Error(errno)
				}
			})
			th.Yield()
			if woken {
				t.Error("woken without room")
			}
			all := ""
			inTurns(t, th, "the rest", func() bool { // which needs no thread
				all += got(peer)
				return strings.HasSuffix(all, "rest+")
			})
			l.Layer().CloseDescriptor(&d.Descriptor)
		})
		mustRun(t, l)
		if s := l.Stats(); s.Lost != 0 || s.Remainders != 0 {
			t.Errorf("%d bytes lost, %d sockets with a remainder", s.Lost, s.Remainders)
		}
	})
}

// TestPutOffShutBehind: a socket with a remainder is shut once that is sent.
func TestPutOffShutBehind(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			d, peer := owing(t, l, th)
			must.Do(t, d.CloseWrite())
			all, buf := "", make([]byte, 64<<10)
			inTurns(t, th, "the end", func() bool {
				n, err := unix.Read(peer, buf)
				all += string(buf[:max(n, 0)])
				return n == 0 && err == nil
			})
			if !strings.HasSuffix(all, "rest") {
				t.Errorf("the peer got %q in the end", all[max(len(all)-10, 0):])
			}
			l.Layer().CloseDescriptor(&d.Descriptor)
		})
		mustRun(t, l)
	})
}

// TestPutOffLost: a remainder at the end of a socket is counted.
func TestPutOffLost(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			d, _ := owing(t, l, th)
			l.Layer().CloseDescriptor(&d.Descriptor)
			d, _ = owing(t, l, th)
			unix.Close(l.Layer().Deregister(&d.Descriptor))
			d, peer := owing(t, l, th)
			unix.Close(peer)
			inTurns(t, th, "the peer's end", d.Gone)
			l.Layer().CloseDescriptor(&d.Descriptor)
		})
		mustRun(t, l)
		if s := l.Stats(); s.Lost != 3*4 || s.Remainders != 0 {
			t.Errorf("%d bytes lost, %d sockets with a remainder", s.Lost, s.Remainders)
		}
	})
}

// TestPutOffReset: the kernel tells an error once. If the loop gets it, a read returns it all the
// same, and not an orderly end.
func TestPutOffReset(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer ln.Close()
		c := must.Dial(t, "tcp", ln.Addr().String()).(*net.TCPConn)
		defer c.Close()
		peer := must.Get(ln.Accept())(t).(*net.TCPConn)
		fd := must.Get(unix.FcntlInt(must.Get(c.File())(t).Fd(), unix.F_DUPFD_CLOEXEC, 0))(t)
		must.Do(t, unix.SetNonblock(fd, true))
		d := new(loop.Shared)
		must.Do(t, l.Layer().Register(d, fd))
		l.Go(func(th *loop.Thread) {
			must.Do(t, peer.SetLinger(0))
			must.Do(t, peer.Close())
			putOff(t, l, &d.Descriptor, "last")
			must.Do(t, d.AwaitRead(th, time.Minute))
			for range 2 {
				errno := insist(t, th, func() syscall.Errno {
					n, errno := d.Recv(make([]byte, 10))
					if n != 0 {
						t.Errorf("read %d bytes", n)
					}
					return errno
				})
				if errno == 0 {
					t.Error("an orderly end")
				}
			}
			if _, errno := d.Send([]byte("x"), false); errno == 0 {
				t.Error("written after an error")
			}
			unix.Close(l.Layer().Deregister(&d.Descriptor))
		})
		mustRun(t, l)
	})
}

// TestPutOffIdle: the task of an idle thread is called if there is no room for what was put off,
// and can wait for that.
func TestPutOffIdle(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		runs := 0
		b := &task{run: func(b *task) coro.Code {
			if runs++; runs == 1 {
				_, _ = unix.Read(b.FD(), make([]byte, 1))
				return coro.WantRead
			}
			d := b.Thread.Layer().Descriptor()
			for _, errno := d.Send(nil, false); errno == unix.EAGAIN; _, errno = d.Send(nil, false) {
				if err := b.WantWrite(time.Minute); err != nil {
					t.Error(err)
					break
				}
			}
			return coro.Abort
		}}
		c := serve(t, l, b)
		must.Get(c.Write([]byte("x")))(t)
		full := make(chan int, 1)
		l.Go(func(th *loop.Thread) {
			for runs == 0 {
				_ = th.Sleep(time.Millisecond)
			}
			sent, chunk := 0, make([]byte, 64<<10)
			inTurns(t, th, "another call of the task", func() bool {
				if runs > 1 {
					return true
				}
				n, err := 0, error(nil)
				for ; err == nil; n, err = unix.Write(b.FD(), chunk) {
					sent += n
				}
				if l.Layer().PutOff(b.Thread.Layer().Descriptor(), []byte("rest")) {
					sent += len("rest")
				}
				return false
			})
			full <- sent
		})
		end := start(t, l)
		n := <-full
		must.Do(t, c.SetDeadline(time.Now().Add(time.Minute)))
		all := must.Get(io.ReadAll(c))(t)
		if !bytes.HasSuffix(all, []byte("rest")) || len(all) != n {
			t.Errorf("the peer got %d bytes of %d", len(all), n)
		}
		end()
		if s := l.Stats(); runs != 2 || s.Lost != 0 || s.Remainders != 0 {
			t.Errorf("the task was called %d times, %d bytes lost, %d sockets with a remainder",
				runs, s.Lost, s.Remainders)
		}
	})
}
