package conn_test

import (
	"bytes"
	"net"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestHTTP2PlainRequestIsFree is TestPlainRequestIsFree over HTTP/2.
func TestHTTP2PlainRequestIsFree(t *testing.T) {
	ci.Without(t, invariants.Enabled, "short reads and writes cost epoll_ctl")
	ci.Without(t, race.Enabled, "sync.Pool drops things at random")
	h := func(req *conn.Request, resp *conn.Response) int {
		resp.Header().Set("Content-Type", "text/plain")
		l := req.Layer()
		if ua, ok := l.HeaderView("user-agent"); !ok || len(ua) == 0 || len(l.PathView()) != 6 {
			return 500
		}
		resp.WriteString("Hello, world!")
		return 200
	}
	s := start(t, modes.HTTP2, conn.Config{Handler: h, Count: true,
		Headers: []conn.Field{{Name: "Server", Value: "lwango"}}})
	r := dial2(t, s).frame(http2.Ping, 0, 0, "12345678").flush()
	r.until(http2.Ping)
	f := must.Get(r.Conn.(*net.TCPConn).File())(t) // blocking, and out of Go's poller
	defer f.Close()
	fd, last, buf := int(f.Fd()), uint32(0), make([]byte, 16<<10)
	for _, together := range []int{1, 16} {
		var batch []byte
		var ids []int // where in batch they are
		for range together {
			ids = append(ids, len(batch)+5)
			r.head(1, http2.EndStream, ":method", "GET", ":scheme", "http", ":path", "/hello",
				":authority", "localhost:8080", "user-agent", "test", "accept", "*/*")
			batch, r.out = append(batch, r.out...), r.out[:0]
		}
		size := 0
		ask := func() {
			for _, at := range ids {
				http2.AppendUint32(batch[at:at], last+1)
				last += 2
			}
			if _, err := unix.Write(fd, batch); err != nil {
				t.Fatal(err)
			}
			for got := 0; got == 0 || got < size; {
				n, err := unix.Read(fd, buf[got:])
				if n <= 0 {
					t.Fatal(n, err)
				}
				got += n
				if size == 0 { // the first time
					size = n
				}
			}
		}
		ask()
		size = 0 // the first answer of a connection may be longer
		ask()
		if got := bytes.Count(buf[:size], []byte("Hello, world!")); got != together {
			t.Fatalf("%d answers in one read, want %d", got, together)
		}
		var before, after loop.Stats
		s.On(func(l *loop.Loop) { before = l.Stats() })
		if n := testing.AllocsPerRun(100, ask); n != 0 {
			t.Errorf("%v allocations for %d requests", n, together)
		}
		s.On(func(l *loop.Loop) { after = l.Stats() })
		if n := after.Ctls - before.Ctls; n != 0 {
			t.Errorf("%d calls of epoll_ctl", n)
		}
	}
}
