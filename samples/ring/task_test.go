package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
)

// within runs a task on a Context of its own. It must not call t.Fatal.
func within(t *testing.T, task func(*Context)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c, err := NewContext(16)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		ci.Lacks(t, err.Error())
	}
	must.Do(t, err)
	_, err = Run(c, func(c *Context) (None, error) {
		task(c)
		return None{}, nil
	})
	must.Do(t, err)
	must.Do(t, c.Close())
}

// pair returns two connected sockets of that kind.
func pair(t *testing.T, kind int) (a, b int) {
	t.Helper()
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) })
	return fds[0], fds[1]
}

var errTest = errors.New("for the test")

func fails[T any](*Context) (none T, err error) { return none, errTest }

func gives[T any](value T) Task[T] {
	return func(*Context) (T, error) { return value, nil }
}

func after[T any](d time.Duration, t Task[T]) Task[T] {
	return func(c *Context) (none T, err error) {
		if err := c.Sleep(d); err != nil {
			return none, err
		}
		return t(c)
	}
}

// TestTasks: what tasks do when they are put together, and that none begins before it is run.
func TestTasks(t *testing.T) {
	begun := 0
	count := func(*Context) (int, error) {
		begun++
		return begun, nil
	}
	double := func(_ *Context, n int) (string, error) { return fmt.Sprint(2 * n), nil }
	twice := Then(count, double)
	late := WhenAll(twice, after(time.Millisecond, twice))
	if begun != 0 {
		t.Error("a task has begun by itself")
	}
	within(t, func(c *Context) {
		for range 2 {
			if v, err := late(c); err != nil || len(v) != 2 {
				t.Errorf("%v, %v", v, err)
			}
		}
		if begun != 4 {
			t.Errorf("it has begun %d times", begun)
		}
		if v, err := Then(fails[int], double)(c); v != "" || err != errTest {
			t.Errorf("after an error: %q, %v", v, err)
		}
		rescued := UponError(fails[int], func(_ *Context, err error) (int, error) {
			return 7, errors.Join(err, nil)
		})
		if v, err := rescued(c); v != 7 || !errors.Is(err, errTest) {
			t.Errorf("upon an error: %d, %v", v, err)
		}
		spared := UponError(gives(3), func(*Context, error) (int, error) { return 0, errTest })
		if v, err := spared(c); v != 3 || err != nil {
			t.Errorf("without an error: %d, %v", v, err)
		}
	})
}

// TestWhenAll: the tasks run at the same time, and the error of one ends the others.
func TestWhenAll(t *testing.T) {
	within(t, func(c *Context) {
		began := time.Now()
		const while = 30 * time.Millisecond
		all := WhenAll(after(while, gives(1)), gives(2), after(while, gives(3)))
		if v, err := all(c); err != nil || !slices.Equal(v, []int{1, 2, 3}) {
			t.Errorf("%v, %v", v, err)
		}
		if took := time.Since(began); took < while || took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		a, _ := pair(t, unix.SOCK_STREAM)
		var ended []string
		waits := func(c *Context) (int, error) {
			_, err := c.Read(a, nil, 0)
			ended = append(ended, fmt.Sprint(err))
			return 0, err
		}
		sleeps := func(c *Context) (int, error) {
			err := c.Sleep(time.Hour)
			ended = append(ended, fmt.Sprint(err))
			return 0, err
		}
		first := func(_ *Context, all []int) (int, error) { return all[0], nil }
		inner := Then(WhenAll(sleeps, waits), first) // the cancellation reaches those within
		_, err := WhenAll(after(time.Millisecond, fails[int]), waits, inner)(c)
		if err != errTest || !slices.Equal(ended, slices.Repeat([]string{errTest.Error()}, 3)) {
			t.Errorf("%v; the others: %v", err, ended)
		}
	})
}

// TestScope: a scope ends after all that was spawned into it, and an error, or a panic, of one task
// is reported and touches no other.
func TestScope(t *testing.T) {
	within(t, func(c *Context) {
		var reported []string
		done := 0
		err := WithScope(c, func(err error) { reported = append(reported, err.Error()) },
			func(s *Scope) error {
				s.Spawn(after(5*time.Millisecond, func(*Context) (None, error) {
					done++
					s.Spawn(after(time.Millisecond, func(*Context) (None, error) { // when body has returned
						done++
						return None{}, nil
					}))
					return None{}, nil
				}))
				s.Spawn(fails[None])
				s.Spawn(func(*Context) (None, error) { panic("dropped a cup") })
				if s.Join(time.Millisecond) {
					t.Error("all have ended at once")
				}
				return nil
			})
		if err != nil || done != 2 || len(reported) != 2 || reported[0] != errTest.Error() ||
			!strings.Contains(reported[1], "dropped a cup") {
			t.Errorf("%v, %d done, reported %q", err, done, reported)
		}
		// An error of body, or its panic, ends the tasks.
		for _, how := range []func() error{
			func() error { return errTest }, func() error { panic("body") },
		} {
			ended := false
			func() {
				defer func() { _ = recover() }()
				_ = WithScope(c, nil, func(s *Scope) error {
					s.Spawn(func(c *Context) (None, error) {
						ended = c.Sleep(time.Hour) != nil
						return None{}, nil
					})
					c.Yield()
					return how()
				})
			}()
			if !ended {
				t.Error("a task has outlived its scope")
			}
		}
		var gone *Scope
		_ = WithScope(c, nil, func(s *Scope) error {
			gone = s
			return nil
		})
		defer func() {
			if recover() == nil {
				t.Error("a task is spawned into a scope that has ended")
			}
		}()
		gone.Spawn(gives(None{}))
	})
}

// TestCancelKeepsMemory: a canceled task has its memory until the kernel is done with it.
func TestCancelKeepsMemory(t *testing.T) {
	within(t, func(c *Context) {
		a, b := pair(t, unix.SOCK_STREAM)
		block := c.blocks.take()
		var err error
		writing := false
		_ = WithScope(c, nil, func(s *Scope) error {
			s.Spawn(func(c *Context) (None, error) {
				writing = true
				for err == nil { // until the socket is full, and then some
					err = c.WriteAll(a, block, time.Hour)
				}
				writing = false
				return None{}, nil
			})
			_ = c.Sleep(10 * time.Millisecond)
			s.Cancel(errTest)
			if !writing {
				t.Error("the task has ended before its operation")
			}
			return nil
		})
		if err != errTest {
			t.Errorf("the write: %v", err)
		}
		c.blocks.give(block)
		p := make([]byte, 4<<20)
		if n, err := unix.Read(b, p); n <= 0 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
	})
}

// TestTimeouts: an operation that takes too long ends with ErrTimeout, and what comes later is for
// the next one.
func TestTimeouts(t *testing.T) {
	within(t, func(c *Context) {
		a, b := pair(t, unix.SOCK_STREAM)
		for range 3 {
			if _, err := c.Read(a, nil, time.Millisecond); err != ErrTimeout {
				t.Errorf("read: %v", err)
			}
		}
		_, _ = unix.Write(b, []byte("hello"))
		if got, err := c.Read(a, []byte("> "), time.Hour); string(got) != "> hello" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		block := c.blocks.take()
		defer c.blocks.give(block)
		var err error
		for err == nil {
			err = c.WriteAll(a, block, 5*time.Millisecond)
		}
		if err != ErrTimeout {
			t.Errorf("write: %v", err)
		}
		_ = unix.Shutdown(b, unix.SHUT_WR)
		if _, err := c.Read(a, nil, 0); err != io.EOF {
			t.Errorf("read: %v", err)
		}
	})
}

// TestInterrupted: a canceled operation of one of the kernel's threads may end with EINTR.
func TestInterrupted(t *testing.T) {
	for _, errno := range []syscall.Errno{unix.ECANCELED, unix.EINTR} {
		for want, f := range map[error]*fiber{
			errTest: {cause: errTest, expired: true}, ErrTimeout: {expired: true}, error(errno): {},
		} {
			f.result.Result = -int32(errno)
			if err := f.failure(); err != want {
				t.Errorf("%v: %v, want %v", errno, err, want)
			}
		}
	}
	f := &fiber{cause: errTest}
	f.result.Result = -int32(unix.EIO)
	if err := f.failure(); err != error(unix.EIO) {
		t.Error(err)
	}
}

// TestManyReaders: with more readers than there are buffers, and entries in the queue, each gets
// its own bytes.
func TestManyReaders(t *testing.T) {
	const many = entries + 100
	var tasks []Task[string]
	var writers []int
	for range many {
		a, b := pair(t, unix.SOCK_STREAM)
		writers = append(writers, b)
		tasks = append(tasks, func(c *Context) (string, error) {
			got, err := c.Read(a, nil, time.Minute)
			return string(got), err
		})
	}
	write := func(*Context) (string, error) {
		for i, fd := range writers {
			_, _ = unix.Write(fd, fmt.Append(nil, i))
		}
		return "", nil
	}
	within(t, func(c *Context) {
		for _, all := range []Task[[]string]{
			WhenAll(append(tasks, after(5*time.Millisecond, write))...), // all wait when it comes
			WhenAll(append([]Task[string]{write}, tasks...)...),
		} {
			got, err := all(c)
			if got[0] == "" {
				got = got[1:]
			}
			for i, text := range got[:many] {
				if text != fmt.Sprint(i) || err != nil {
					t.Errorf("%d: %q, %v", i, text, err)
				}
			}
		}
	})
}

// TestOneWrite: requests that come together are answered in one write. A socket of packets shows
// the writes.
func TestOneWrite(t *testing.T) {
	within(t, func(c *Context) {
		a, b := pair(t, unix.SOCK_SEQPACKET)
		fd, err := unix.Dup(a)
		if err != nil {
			t.Error(err)
			return
		}
		const many = 50
		one := "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
		_, _ = unix.Write(b, []byte(strings.Repeat(one, many)+one[:20]))
		_ = unix.Shutdown(b, unix.SHUT_WR)
		s := &server{text: "hello", most: 1,
			idleTime: time.Hour, headTime: time.Hour, stallTime: time.Hour}
		_, _ = (&connection{server: s, fd: fd}).serve(c)
		p := make([]byte, 1<<20)
		n, err := unix.Read(b, p)
		if got := strings.Count(string(p[:max(n, 0)]), "hello"); got != many || err != nil {
			t.Errorf("the first write has %d answers of %d, %v", got, many, err)
		}
	})
}

// TestPause: which errors of accept end the server, and how a canceled task ends.
func TestPause(t *testing.T) {
	within(t, func(c *Context) {
		s := &server{reported: time.Now()} // logs nothing
		for errno, fatal := range map[error]bool{unix.EBADF: true, unix.EINVAL: true,
			unix.ENOTSOCK: true, unix.ENETDOWN: false, unix.EHOSTUNREACH: false, unix.ENOMEM: false,
			unix.ECONNABORTED: false, errStop: true} {
			if fd, err := s.pause(c, errno); fd != -1 || (err == errno) != fatal || err != nil && !fatal {
				t.Errorf("%v: %d, %v", errno, fd, err)
			}
		}
		_, err := WhenAll(fails[int], func(c *Context) (int, error) {
			fd, err := s.pause(c, unix.ENETDOWN)
			if err != errTest {
				t.Errorf("canceled: %v", err)
			}
			return fd, err
		})(c)
		if err != errTest {
			t.Error(err)
		}
	})
}

// TestMakeRoom: the oldest idle connection ends, but not one whose request has come in this turn.
func TestMakeRoom(t *testing.T) {
	within(t, func(c *Context) {
		s := &server{connections: make(map[*connection]None), reported: time.Now()}
		_ = WithScope(c, nil, func(all *Scope) error {
			var ks []*connection
			for i := range 2 {
				k := &connection{server: s, idle: true, since: time.Duration(i)}
				a, _ := pair(t, unix.SOCK_STREAM)
				defer func() { _ = unix.Shutdown(a, unix.SHUT_RDWR) }()
				all.Spawn(func(c *Context) (None, error) {
					k.fiber = c.running
					_, err := c.Read(a, nil, 0)
					return None{}, err
				})
				s.connections[k] = None{}
				ks = append(ks, k)
			}
			c.Yield()
			ks[0].fiber.state = runnable // as reap does
			s.makeRoom()
			ks[0].fiber.state = operating
			if s.full || ks[0].fiber.cause != nil || ks[1].fiber.cause != errReplaced {
				t.Errorf("full %v, %v, %v", s.full, ks[0].fiber.cause, ks[1].fiber.cause)
			}
			return nil
		})
	})
}

// TestSlowReaderPipelines: half a head that comes behind a request has its time after the answer,
// which may take longer.
func TestSlowReaderPipelines(t *testing.T) {
	within(t, func(c *Context) {
		a, b := pair(t, unix.SOCK_STREAM)
		fd, err := unix.Dup(a)
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 1)
		}
		if err != nil {
			t.Error(err)
			return
		}
		const while = 100 * time.Millisecond
		one := "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
		_, _ = unix.Write(b, []byte(one+one[:20]))
		s := &server{text: strings.Repeat("x", blockSize*3/4), most: 1,
			idleTime: time.Hour, headTime: while, stallTime: time.Hour}
		var got []byte
		read := func(c *Context) (None, error) {
			_, _ = unix.Write(b, []byte(one[20:]))
			_ = unix.Shutdown(b, unix.SHUT_WR)
			for err == nil {
				got, err = c.Read(b, got, 0)
			}
			return None{}, nil
		}
		serve := func(c *Context) (None, error) {
			defer func() { _ = unix.Shutdown(a, unix.SHUT_WR) }()
			return (&connection{server: s, fd: fd}).serve(c)
		}
		_, _ = WhenAll(serve, after(2*while, read))(c)
		if n := strings.Count(string(got), "HTTP/1.1 200"); n != 2 || err != io.EOF {
			t.Errorf("%d answers: %.40q, %v", n, got[max(0, len(got)-100):], err)
		}
	})
}
