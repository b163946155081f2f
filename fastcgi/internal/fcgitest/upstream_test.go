package fcgitest_test

import (
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

const hello = "Content-Type: text/plain\r\n\r\nhello"

var networks = []string{"unix", "tcp", "tcp6"}

func TestAnswer(t *testing.T) {
	for _, network := range networks {
		up := fcgitest.Start(t, network, func(c *fcgitest.Conn) {
			for {
				c.Answer(hello)
			}
		})
		// A connection per request: the application waits for our end, and the script ends with it.
		for range 2 {
			if o := dial(t, up.Address, false).do("body"); o.status != 200 || o.body != "hello" ||
				o.reuse {
				t.Fatalf("%s: %+v", network, o)
			}
		}
		// And one for two.
		c := dial(t, up.Address, true)
		for range 2 {
			if o := c.do(""); o.status != 200 || o.body != "hello" || !o.reuse {
				t.Fatalf("%s: %+v", network, o)
			}
		}
		c.conn.Close()
		if !up.Wait(5*time.Second, func(accepted, open, requests int) bool {
			return accepted == 3 && open == 0 && requests == 4
		}) {
			t.Fatalf("%s: %d accepted, %d open", network, up.Accepted(), up.Open())
		}
		r := up.Requests()[0]
		if string(r.Body) != "body" || !r.Whole || r.Keep || r.Conn != 1 ||
			r.Get("REQUEST_METHOD") != "POST" ||
			r.Get("CONTENT_LENGTH") != "4" {
			t.Errorf("%s: %+v", network, r)
		}
		if !up.Requests()[3].Keep || up.Requests()[3].Conn != 3 {
			t.Errorf("%s: %+v", network, up.Requests()[3])
		}
		up.Stop()
	}
}

// A sink is a testing.TB that takes the errors, for what has to be found wrong.
type sink struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (s *sink) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

const (
	begin = "\x01\x01\x00\x01\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"
	none  = "\x01\x04\x00\x01\x00\x00\x00\x00"
)

func pair(name, value string) string {
	return string([]byte{byte(len(name)), byte(len(value))}) + name + value
}

func record(typ byte, content string) string {
	return fcgitest.Header(1, typ, 1, len(content), 0) + content
}

func required(length string) string {
	s := pair("CONTENT_LENGTH", length)
	for _, name := range []string{"GATEWAY_INTERFACE", "SERVER_PROTOCOL", "REQUEST_METHOD",
		"QUERY_STRING", "REQUEST_URI",
		"SCRIPT_NAME", "SCRIPT_FILENAME", "SERVER_NAME", "SERVER_PORT", "REMOTE_ADDR"} {
		s += pair(name, "x")
	}
	return s
}

// TestRequestsAreChecked: the decoder finds what a web server gets wrong.
func TestRequestsAreChecked(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{begin + record(4, required("2")) + none + record(5, "ab") + record(5, ""), ""},
		{begin + record(4, required("0")) + none + record(5, ""), ""},
		// Cut short, which is allowed.
		{begin + record(4, required("2")) + none + record(5, "a"), ""},
		{begin[:7], ""},
		{begin + record(4, required("2")+pair("HTTP_A", "")) + record(4, pair("HTTP_B", "x")) +
			none + record(5, "ab") + record(5, ""), ""},
		{"\x00" + begin[1:], "version 0"},
		{begin[:7] + "\x01" + begin[8:], "reserved byte"},
		{begin[:3] + "\x02" + begin[4:], "with id 2"},
		{none, "type 4"},
		{begin + begin, "type 1"},
		{begin + record(5, ""), "type 5"},
		{begin[:9] + "\x03" + begin[10:], "BEGIN_REQUEST is"},
		{begin[:10] + "\x06" + begin[11:], "BEGIN_REQUEST is"},
		{begin + fcgitest.Header(1, 4, 1, 65535, 1), "65535 bytes and 1 of padding"},
		{begin + record(4, "\x02\x02abc"), "not whole"},
		{begin + record(4, "\x02"), "not whole"},
		{begin + record(4, "\x80\x00\x00\x02\x00ab"), "wrong form"},
		{begin + record(4, "\x02\x00\x00\x00\x80ab"), "NUL"}, // the top bit in the wrong byte
		{begin + record(4, pair("", "x")), "empty"},
		{begin + record(4, pair("a", "\x00")), "NUL"},
		{begin + record(4, pair("a", "1")+pair("a", "2")), "a is there twice"},
		{begin + record(4, pair("a", "1")) + none, "is missing"},
		{begin + record(4, required("x")) + none, "CONTENT_LENGTH is"},
		{begin + record(4, required("")) + none, "CONTENT_LENGTH is"},
		{begin + record(4, required("0")+pair("HTTP_PROXY", "")) + none, "HTTP_PROXY is there"},
		{begin + record(4, required("2")) + none + record(5, "abc"), "3 bytes of STDIN"},
		{begin + record(4, required("2")) + none + record(5, "a") + record(5, ""),
			"STDIN ended at 1"},
		{begin + record(4, required("0")) + none + record(5, "") + begin, "behind the request"},
	} {
		s := &sink{TB: t}
		up := fcgitest.Start(s, "unix", func(c *fcgitest.Conn) { c.Answer() })
		conn := must.Get(net.Dial("unix", up.Address[5:]))(t)
		io.WriteString(conn, tt.raw)
		conn.(*net.UnixConn).CloseWrite()
		io.Copy(io.Discard, conn)
		conn.Close()
		up.Wait(5*time.Second, func(accepted, open, _ int) bool {
			return accepted == 1 && open == 0
		})
		up.Stop()
		if got := strings.Join(s.said, "; "); (got == "") != (tt.want == "") ||
			!strings.Contains(got, tt.want) {
			t.Errorf("%q\n said %q\nwant %q", tt.raw, got, tt.want)
		}
	}
}

// Head and first body in one write can be told from two.
func TestFirst(t *testing.T) {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Answer(hello) })
	c := dial(t, up.Address, false)
	head := c.head("")
	c.conn.Write(append(head, "\x01\x05\x00\x01\x00\x00\x00\x00"...))
	c.read()
	two := dial(t, up.Address, false)
	two.conn.Write(head[:16])
	raw := must.Get(two.conn.(syscall.Conn).SyscallConn())(t)
	wait.Until(t, "the first bytes are read", func() bool {
		unread := -1
		must.Do(t, raw.Control(func(fd uintptr) {
			if n, err := unix.IoctlGetInt(int(fd), unix.TIOCOUTQ); err == nil {
				unread = n
			}
		}))
		return unread == 0
	})
	two.conn.Write(append(head[16:len(head):len(head)], "\x01\x05\x00\x01\x00\x00\x00\x00"...))
	two.read()
	r := up.Requests()
	if r[0].First != len(head)+8 || r[0].HeadLen != len(head) || r[1].First != 16 {
		t.Errorf("first %d of %d, and %d", r[0].First, r[0].HeadLen, r[1].First)
	}
}

// One worker serves one connection, and others wait, as long as the backlog holds them.
func TestWorkersAndBacklog(t *testing.T) {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Answer(hello) }, fcgitest.Workers(1),
		fcgitest.Backlog(1))
	first := dial(t, up.Address, true) // the worker is ours as long as we say nothing
	up.Wait(5*time.Second, func(accepted, _, _ int) bool { return accepted == 1 })
	second, third := dial(t, up.Address, false), dial(t, up.Address, false)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: up.Address[5:]})
	if err != syscall.EAGAIN {
		t.Errorf("connect with a full backlog: %v", err)
	}
	first.conn.Close()
	if second.do("").body != "hello" || third.do("").body != "hello" {
		t.Error("no answer")
	}
	if up.Accepted() != 3 {
		t.Error(up.Accepted(), "accepted")
	}
}

func TestNobodyAndStop(t *testing.T) {
	for kind, want := range map[string]syscall.Errno{
		"unix": syscall.ECONNREFUSED, "tcp": syscall.ECONNREFUSED, "missing": syscall.ENOENT,
	} {
		network, address := "unix", strings.TrimPrefix(fcgitest.Nobody(t, kind), "unix:")
		if kind == "tcp" {
			network = "tcp"
		}
		if _, err := net.Dial(network, address); err == nil ||
			!strings.Contains(err.Error(), want.Error()) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, network := range networks {
		up := fcgitest.Start(t, network, func(c *fcgitest.Conn) { c.Answer(hello) })
		c := dial(t, up.Address, true)
		if o := c.do(""); !o.reuse {
			t.Errorf("%+v", o)
		}
		up.Stop()
		if o := c.do(""); o.status != 502 || o.body != "" {
			t.Errorf("%s, after a stop: %+v", network, o)
		}
	}
}

// A script sees when its peer closes, and how soon.
func TestGone(t *testing.T) {
	type seen struct {
		after time.Duration
		ok    bool
	}
	got := make(chan seen, 2)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		c.Stdout(hello)
		after, ok := c.Gone(50 * time.Millisecond)
		got <- seen{after, ok}
		after, ok = c.Gone(10 * time.Second)
		got <- seen{after, ok}
	})
	c := dial(t, up.Address, true)
	c.conn.Write(append(c.head(""), "\x01\x05\x00\x01\x00\x00\x00\x00"...))
	if s := <-got; s.ok || s.after < 50*time.Millisecond {
		t.Error(s)
	}
	c.conn.Close()
	if s := <-got; !s.ok || s.after > 5*time.Second {
		t.Error(s)
	}
}

// A kept connection that does not serve at once: after fastcgi_finish_request(), the script runs on
// behind END_REQUEST.
func TestBusyAfterEnd(t *testing.T) {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		for {
			c.Answer(hello)
			c.Sleep(100 * time.Millisecond)
		}
	})
	c := dial(t, up.Address, true)
	begin := time.Now() // not after the first answer, which may be read late
	c.do("")
	if o := c.do(""); o.body != "hello" || time.Since(begin) < 90*time.Millisecond {
		t.Errorf("%+v after %v", o, time.Since(begin))
	}
}

func TestDrain(t *testing.T) {
	sums := make(chan uint32, 1)
	up := fcgitest.Start(t, "tcp", func(c *fcgitest.Conn) {
		c.ReadHead()
		n, sum := c.Drain()
		sums <- sum
		c.Reply(fmt.Sprintf("\n%d", n))
	})
	body := strings.Repeat("0123456789", 5000)
	if o := dial(t, up.Address, false).do(body); o.body != "50000" {
		t.Errorf("%+v", o)
	}
	if sum := <-sums; sum != crc32.ChecksumIEEE([]byte(body)) {
		t.Error("another body arrived")
	}
	var stdin []int
	for _, r := range up.Requests()[0].Records {
		if r.Type == 5 {
			stdin = append(stdin, r.Length)
		}
	}
	if !slices.Equal(stdin, []int{32760, 17240, 0}) {
		t.Error(stdin)
	}
}
