package httpclient_test

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream/httpclient"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TestKeepsNoBuffer: an exchange that has used all that was received holds nothing of the caller's
// buffer, which is another's by then. The collector would keep the buffer for as long as the
// exchange waits for its client.
func TestKeepsNoBuffer(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	for name, answer := range map[string]string{
		"part of a body": head + "Content-Length: 10\r\n\r\nhello",
		"a chunk":        head + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"all":            head + "Content-Length: 5\r\n\r\nhello",
	} {
		loops.Run(t, func(th *loop.Thread) {
			fds := must.Get(unix.Socketpair(unix.AF_UNIX,
				unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0))(t)
			defer unix.Close(fds[1])
			s := must.Get(stream.New(th.Loop(), fds[0]))(t)
			defer s.Close()
			must.Get(unix.Write(fds[1], []byte(answer)))(t)
			var x httpclient.Exchange
			x.Begin(s, s, "GET")
			buf, collected := new([8 << 10]byte), make(chan bool)
			runtime.AddCleanup(buf, func(c chan bool) { close(c) }, collected)
			for body, over := 0, false; body < len("hello") || !over; {
				switch err := x.Receive(buf[:]); err {
				case nil:
				case stream.ErrWouldBlock: // said by the invariants tag
					must.Do(t, x.Await(time.Minute))
					continue
				default:
					t.Fatal(name, ": ", err)
				}
				for over = false; !over; {
					e, data, err := x.Next()
					must.Do(t, err)
					body += len(data)
					over = e == httpclient.More || e == httpclient.Done
				}
			}
			wait.Until(t, name+": the buffer is nobody's any more", func() bool {
				runtime.GC()
				select {
				case <-collected:
					return true
				default:
					return false
				}
			})
			x.End()
		})
	}
}
