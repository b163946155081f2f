package loop_test

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// sender is a thread with a socket, and its Task. It sends a lot, and receives meanwhile.
type sender struct {
	loop.Thread
	left     []byte
	received int
}

// Run is called when the peer has sent something. What it returns ends the thread.
func (s *sender) Run(t *loop.Thread) coro.Code {
	own, buf := t.Layer().Descriptor(), make([]byte, 512)
	for {
		n, errno := own.Recv(buf)
		switch {
		case errno == syscall.EAGAIN: // no more input for now
		case errno != 0 || n == 0: // the connection has failed, or the peer has sent all
			return coro.Abort
		default:
			s.received += n
			continue
		}
		sent := 0
		if len(s.left) > 0 {
			sent, _ = own.Send(s.left, false)
			s.left = s.left[sent:]
		}
		var err error
		switch {
		case sent > 0:
		case len(s.left) > 0: // there is neither input nor room
			err = t.WantReadWrite(time.Minute)
		default:
			err = t.WantRead(time.Minute)
		}
		if err != nil {
			log.Print(err)
			return coro.Abort
		}
	}
}

func (s *sender) ClientGone() {}

func (s *sender) Ended() { fmt.Println("received", s.received, "left", len(s.left)) }

// A Task is the code of a thread that owns a socket. Until its peer sends something, the thread
// holds no coroutine.
func ExampleThread_WantReadWrite() {
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		log.Fatal(err)
	}
	s := &sender{left: make([]byte, 1<<20)}
	if err := l.Attach(&s.Thread, fds[0], s, time.Minute); err != nil {
		log.Fatal(err)
	}
	go func() { // the peer
		file := os.NewFile(uintptr(fds[1]), "peer")
		defer file.Close()
		peer, err := net.FileConn(file)
		if err != nil {
			log.Fatal(err)
		}
		defer peer.Close()
		fmt.Fprint(peer, "begin")
		_, _ = io.CopyN(io.Discard, peer, 1<<20)
		fmt.Fprint(peer, "enough")
	}()
	if err := l.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// received 11 left 0
}
