package uring_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/samples/ring/uring"
)

func TestMain(m *testing.M) { leak.Main(m) }

// ring makes a ring for the test.
func ring(t *testing.T, entries, completions uint32) *uring.Ring {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	r, err := uring.New(entries, completions)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		ci.Lacks(t, err.Error())
	}
	must.Do(t, err)
	t.Cleanup(func() { must.Do(t, r.Close()) })
	return r
}

// await enters until so many completions have come, and returns them by UserData.
func await(t *testing.T, r *uring.Ring, n int) map[uint64]uring.Completion {
	t.Helper()
	all := make(map[uint64]uring.Completion)
	for began := time.Now(); len(all) < n; {
		must.Do(t, r.Enter(1, time.Second))
		r.Reap(func(c uring.Completion) {
			if _, twice := all[c.UserData]; twice {
				t.Errorf("a second completion of %d", c.UserData)
			}
			all[c.UserData] = c
		})
		if time.Since(began) > wait.Patience {
			t.Fatalf("%d completions, want %d: %v", len(all), n, all)
		}
	}
	return all
}

// submit gives the ring an operation.
func submit(t *testing.T, r *uring.Ring, userData uint64, fill func(*uring.Entry)) {
	t.Helper()
	e := r.Next()
	if e == nil {
		t.Fatal("the queue is full")
	}
	fill(e)
	e.UserData = userData
}

// pair returns two connected sockets.
func pair(t *testing.T) (a, b int) {
	t.Helper()
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) })
	return fds[0], fds[1]
}

// memory returns memory that the kernel may write to.
func memory(t *testing.T, size int) []byte {
	t.Helper()
	p := must.Get(uring.Map(size))(t)
	t.Cleanup(func() { must.Do(t, uring.Unmap(p)) })
	return p
}

func TestFullQueue(t *testing.T) {
	r := ring(t, 4, 64)
	next := uint64(1)
	for range 10 { // beyond the end of the queue several times
		for range 4 {
			submit(t, r, next, (*uring.Entry).Nop)
			next++
		}
		if r.Next() != nil {
			t.Fatal("there is a fifth entry of four")
		}
		if n := r.Reap(func(uring.Completion) {}); n != 0 {
			t.Errorf("%d completions of what was not submitted", n)
		}
		for id, c := range await(t, r, 4) {
			if c.Result != 0 || id+4 < next || id >= next {
				t.Errorf("%d: %+v", id, c)
			}
		}
	}
}

// TestOverflow: no completion is lost for which the queue has no room, and their order stays.
func TestOverflow(t *testing.T) {
	r := ring(t, 4, 8)
	const many = 40
	overflowed := false
	var got []uint64
	submitted := 0
	for len(got) < many {
		if e := r.Next(); e != nil && submitted < many {
			submitted++
			e.Nop()
			e.UserData = uint64(submitted)
			continue
		}
		must.Do(t, r.Enter(0, 0))
		overflowed = overflowed || r.Overflowed()
		if submitted == many || overflowed {
			r.Reap(func(c uring.Completion) { got = append(got, c.UserData) })
		}
	}
	if !overflowed {
		t.Error("the queue had room for all")
	}
	for i, id := range got {
		if id != uint64(i+1) {
			t.Fatalf("the order is %v", got)
		}
	}
}

// TestShortSend: a send without MSG_WAITALL is short where the socket has no room; with it, the
// kernel sends the rest when there is room.
func TestShortSend(t *testing.T) {
	r := ring(t, 8, 16)
	a, b := pair(t)
	text := memory(t, 1<<20)
	for i := range text {
		text[i] = byte(i * i >> 8)
	}
	submit(t, r, 1, func(e *uring.Entry) { e.SendSome(a, text) })
	sent := int(await(t, r, 1)[1].Result)
	if sent <= 0 || sent >= len(text) {
		t.Fatalf("%d of %d bytes were sent at once", sent, len(text))
	}
	submit(t, r, 2, func(e *uring.Entry) { e.Send(a, text[sent:]) })
	must.Do(t, r.Enter(0, 0))
	got := make(chan []byte)
	go func() {
		var all []byte
		for p := make([]byte, 64<<10); len(all) < len(text); {
			n, err := unix.Read(b, p)
			if n <= 0 || err != nil {
				break
			}
			all = append(all, p[:n]...)
		}
		got <- all
	}()
	if c := await(t, r, 1)[2]; int(c.Result) != len(text)-sent {
		t.Errorf("the rest: %d of %d bytes", c.Result, len(text)-sent)
	}
	if all := <-got; !bytes.Equal(all, text) {
		t.Errorf("%d other bytes have come", len(all))
	}
}

// TestCancelSend: what was sent before the cancellation is the result.
func TestCancelSend(t *testing.T) {
	r := ring(t, 8, 16)
	a, b := pair(t)
	text := memory(t, 1<<20)
	submit(t, r, 1, func(e *uring.Entry) { e.Send(a, text) })
	must.Do(t, r.Enter(0, 0))
	submit(t, r, 0, func(e *uring.Entry) { e.Cancel(1) })
	c := await(t, r, 1)[1]
	p := make([]byte, 2<<20)
	total := 0
	for {
		n, _, err := unix.Recvfrom(b, p, unix.MSG_DONTWAIT)
		if err != nil {
			break
		}
		total += n
	}
	if c.Result <= 0 || int(c.Result) != total {
		t.Errorf("%d bytes by the completion, %d have come", c.Result, total)
	}
}

func TestCancel(t *testing.T) {
	r := ring(t, 8, 16)
	a, b := pair(t)
	buffers := must.Get(r.NewBuffers(7, 2, 64))(t)
	defer func() { must.Do(t, buffers.Close()) }()
	submit(t, r, 1, func(e *uring.Entry) { e.Recv(a, 7) })
	must.Do(t, r.Enter(0, 0))
	submit(t, r, 2, func(e *uring.Entry) { e.Cancel(1) })
	if c := await(t, r, 1)[1]; syscall.Errno(-c.Result) != unix.ECANCELED {
		t.Errorf("canceled: %+v", c)
	}
	submit(t, r, 3, func(e *uring.Entry) { e.Cancel(1) })
	if c := await(t, r, 1)[3]; syscall.Errno(-c.Result) != unix.ENOENT {
		t.Errorf("canceled when there was nothing: %+v", c)
	}
	// what comes afterwards is for the next one
	_ = must.Get(unix.Write(b, []byte("later")))(t)
	submit(t, r, 4, func(e *uring.Entry) { e.Recv(a, 7) })
	c := await(t, r, 1)[4]
	id, ok := c.Buffer()
	if !ok || string(buffers.Get(id, int(c.Result))) != "later" {
		t.Errorf("received %+v", c)
	}
}

// TestNoBuffers: who finds no buffer gets ENOBUFS, and loses nothing.
func TestNoBuffers(t *testing.T) {
	r := ring(t, 8, 16)
	buffers := must.Get(r.NewBuffers(0, 2, 64))(t)
	defer func() { must.Do(t, buffers.Close()) }()
	var sockets, peers []int
	for i := range uint64(3) {
		a, b := pair(t)
		_ = must.Get(unix.Write(b, strconv.AppendUint(nil, i, 10)))(t)
		sockets, peers = append(sockets, a), append(peers, b)
		submit(t, r, i, func(e *uring.Entry) { e.Recv(a, 0) })
	}
	without := -1
	for i, c := range await(t, r, 3) {
		id, ok := c.Buffer()
		switch {
		case syscall.Errno(-c.Result) == unix.ENOBUFS && !ok && without < 0:
			without = int(i)
		case c.Result != 1 || !ok || string(buffers.Get(id, 1)) != strconv.FormatUint(i, 10):
			t.Fatalf("%d: %+v", i, c)
		default:
			buffers.Put(id)
		}
	}
	if without < 0 {
		t.Fatal("there were three buffers of two")
	}
	for range 1<<16 + 10 { // more often than 16 bits count
		submit(t, r, 9, func(e *uring.Entry) { e.Recv(sockets[without], 0) })
		c := await(t, r, 1)[9]
		id, ok := c.Buffer()
		if !ok || string(buffers.Get(id, int(c.Result))) != strconv.Itoa(without) {
			t.Fatalf("afterwards: %+v", c)
		}
		buffers.Put(id)
		_ = must.Get(unix.Write(peers[without], strconv.AppendInt(nil, int64(without), 10)))(t)
	}
}

func TestFile(t *testing.T) {
	r := ring(t, 8, 16)
	dir := t.TempDir()
	must.Write(t, dir+"/a.txt", "0123456789")
	folder := must.Get(unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0))(t)
	defer unix.Close(folder)
	name, how := []byte("a.txt\x00"), &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC}
	submit(t, r, 1, func(e *uring.Entry) { e.Open(folder, name, how) })
	fd := int(await(t, r, 1)[1].Result)
	p := memory(t, 64)
	submit(t, r, 2, func(e *uring.Entry) { e.Read(fd, p, 7) })
	if c := await(t, r, 1)[2]; c.Result != 3 || string(p[:3]) != "789" {
		t.Errorf("read %+v %q", c, p[:3])
	}
	submit(t, r, 3, func(e *uring.Entry) { e.Close(fd) })
	submit(t, r, 4, (*uring.Entry).Nop)
	if all := await(t, r, 1); all[4].UserData != 4 {
		t.Errorf("a close that succeeds has a completion: %v", all)
	}
	submit(t, r, 5, func(e *uring.Entry) { e.Close(fd) })
	if c := await(t, r, 1)[5]; syscall.Errno(-c.Result) != unix.EBADF {
		t.Errorf("closed twice: %+v", c)
	}
	name = []byte("../etc\x00")
	how.Resolve = unix.RESOLVE_BENEATH
	submit(t, r, 6, func(e *uring.Entry) { e.Open(folder, name, how) })
	if c := await(t, r, 1)[6]; syscall.Errno(-c.Result) != unix.EXDEV {
		t.Errorf("a way out: %+v", c)
	}
}

// TestOtherThread: a ring is its thread's alone.
func TestOtherThread(t *testing.T) {
	r := ring(t, 4, 8)
	failed := make(chan error)
	go func() { failed <- r.Enter(0, 0) }() // elsewhere, as the test's goroutine has its thread
	if err := <-failed; !errors.Is(err, unix.EEXIST) || !strings.Contains(err.Error(), "thread") {
		t.Error(err)
	}
}

func TestTimeout(t *testing.T) {
	r := ring(t, 4, 8)
	began := time.Now()
	must.Do(t, r.Enter(1, 20*time.Millisecond))
	if took := time.Since(began); took < 20*time.Millisecond {
		t.Errorf("it has waited for %v", took)
	}
}

// TestCloseWhileArmed: a receive that waits holds the socket open, and the peer sees no end of a
// connection that was closed before the receive was canceled.
func TestCloseWhileArmed(t *testing.T) {
	r := ring(t, 8, 16)
	buffers := must.Get(r.NewBuffers(0, 2, 64))(t)
	defer func() { must.Do(t, buffers.Close()) }()
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(fds[1])
	submit(t, r, 1, func(e *uring.Entry) { e.Recv(fds[0], 0) })
	must.Do(t, r.Enter(0, 0))
	must.Do(t, unix.Close(fds[0]))
	if n, _, err := unix.Recvfrom(fds[1], make([]byte, 1), unix.MSG_DONTWAIT); err != unix.EAGAIN {
		t.Errorf("the peer reads %d, %v", n, err)
	}
	submit(t, r, 0, func(e *uring.Entry) { e.Cancel(1) })
	await(t, r, 1)
	if n, err := unix.Read(fds[1], make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("then the peer reads %d, %v", n, err)
	}
}

// TestRefused: where a container forbids io_uring, the error says so.
func TestRefused(t *testing.T) {
	const variable = "LWANGO_REFUSED_RING"
	if errno, _ := strconv.Atoi(os.Getenv(variable)); errno != 0 {
		refuse.Refuse(syscall.Errno(errno), unix.SYS_IO_URING_SETUP)
		r, err := uring.New(4, 8)
		if r != nil || !errors.Is(err, syscall.Errno(errno)) {
			t.Errorf("%v, %v", r, err)
		}
		t.Log(err)
		return
	}
	for errno, want := range map[syscall.Errno]string{
		unix.EPERM:  "this process may not use io_uring",
		unix.ENOSYS: "the kernel has no io_uring",
		unix.EINVAL: "Linux 6.1 is needed",
		unix.EMFILE: "the kernel refuses to make a ring",
	} {
		cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestRefused$")
		cmd.Env = append(os.Environ(), variable+"="+strconv.Itoa(int(errno)))
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v\n%s", errno, err, out)
		}
	}
}
