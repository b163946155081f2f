package top

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

var snapshot = metrics.Snapshot{Version: "v1", PID: 7, Uptime: 100, Time: time.Now(),
	Requests:    metrics.Requests{Total: 1000, Running: 1},
	Connections: metrics.Connections{Open: 3, Idle: 2, Busy: 1, FailedHandshakes: 4},
	Handshakes:  metrics.Slots{Taken: 1, Waiting: 5},
	Loops:       []metrics.Loop{{Answered: true, Age: 100, Busy: 25}, {Loop: 1, Stalls: 2}},
	Routes: []metrics.Route{
		{Site: "*", Route: "/quick", Status: [6]int64{2: 5}, Times: []int64{5}, Spent: 0.001,
			Cache: map[string]int64{"hit": 12, "miss": 3}},
		{Site: "*", Route: "/slow\x1b[31m", Status: [6]int64{5: 2}, Times: []int64{2}, Spent: 4},
	},
	Cache: &metrics.Cache{MemoryObjects: 3, MemoryBytes: 2048, DiskObjects: 4, DiskBytes: 4096,
		Filling: 1, Fills: 9, Dropped: 8,
		Evicted: 7, Purged: 6, Damaged: 5, Failed: 2},
	Streams: []metrics.Stream{
		{Address: "*:5432", Open: 3, Accepted: 12, Refused: 4, Failed: 5, Got: 2048, Sent: 10}},
	Handlers: []metrics.Counted{{Kind: "mirror", Site: "*", Route: "/m", Of: "/next",
		Counts: []metrics.Count{{Name: "requests", Value: 7}, {Name: "dropped_busy", Value: 8}}}},
	Upstreams: []metrics.Upstream{{Site: "*", Route: "/p", Address: "127.0.0.1:9"}},
	Stalls:    []metrics.Stall{{Loop: 1, Held: 0.25, Place: "main.compute main.go:3"}},
}

// serve answers each second look as a second later.
func serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/status/json" {
		http.NotFound(w, r)
		return
	}
	now := snapshot
	if looks.Add(1)%2 == 0 {
		now.Time, now.Uptime = now.Time.Add(time.Second), 101
		now.Requests.Total += 10
		now.Loops = slices.Clone(now.Loops)
		now.Loops[0].Age, now.Loops[0].Busy = 101, 25.5
	}
	_ = json.NewEncoder(w).Encode(now)
}

var looks atomic.Int64

// run runs the command with a pipe as its output.
func run(t *testing.T, args ...string) (code int, out, errors string) {
	t.Helper()
	r, w := must.Pipe(t)
	var said bytes.Buffer
	code = Main(args, r, w, &said)
	w.Close()
	text, _ := io.ReadAll(r)
	return code, string(text), said.String()
}

func TestOnce(t *testing.T) {
	defer func(was time.Duration) { interval = was }(interval)
	interval = time.Millisecond
	tcp := httptest.NewServer(http.HandlerFunc(serve))
	defer tcp.Close()
	path := filepath.Join(t.TempDir(), "s")
	ln := must.Get(net.Listen("unix", path))(t)
	go func() { _ = http.Serve(ln, http.HandlerFunc(serve)) }()
	defer ln.Close()
	for _, address := range []string{tcp.URL + "/status", tcp.URL + "/status/", "unix:" + path,
		"unix:" + path + ":/status"} {
		code, out, errors := run(t, address)
		if code != 0 || errors != "" {
			t.Errorf("%s: %d, %s", address, code, errors)
		}
		for _, want := range []string{"lwango v1, process 7, up 1m41s",
			"requests    10.0/s, 1 running, 1010 in all",
			"connections 3: 2 idle, 1 busy", "\nhandshakes  1 compute, 5 wait, 4 have failed;",
			"   0  50.0%", "   1 does not answer", "failed  ", "main.compute main.go:3",
			"\ncache       3 in memory, 2.0 KiB; 4 on disk, 4.0 KiB; 1 filling, 0.0/s kept\n" +
				"            9 kept in all, 8 not kept, 7 evicted, 6 purged, 5 damaged, 2 failed\n" +
				"            12 hit, 3 miss  * /quick\n",
			"       3         12        4        5    2.0 KiB       10 B  *:5432",
			"  REQUESTS  DROPPED_BUSY  MIRROR\n         7             8  * /m /next\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", address, want, out)
			}
		}
		if slow, quick := strings.Index(out, "* /slow?[31m"), strings.Index(out, "* /quick"); slow < 0 ||
			slow > quick {
			t.Errorf("%s: the slowest route is not first, or controls the terminal:\n%q", address, out)
		}
	}
}

// TestFirstLook: before there is a second look, there are no rates. An average since the start of
// the server is none.
func TestFirstLook(t *testing.T) {
	text := strings.Join(render(nil, &snapshot), "\n")
	for _, want := range []string{"requests    -/s, 1 running, 1000 in all",
		"bytes       -/s sent, -/s received",
		"   0      -          -          -", "         5         -"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	other := snapshot
	other.PID++
	other.Time = other.Time.Add(time.Second)
	if text := strings.Join(render(&snapshot, &other), "\n"); !strings.Contains(text,
		"requests    -/s") {
		t.Errorf("another process:\n%s", text)
	}
}

// TestRatesAfterAHeldLoop: what a loop has counted before it did not answer is not taken for what
// came since.
func TestRatesAfterAHeldLoop(t *testing.T) {
	before, now := snapshot, snapshot
	now.Time = before.Time.Add(time.Second)
	now.Loops = []metrics.Loop{{Answered: true, Age: 101, Busy: 25.5, Wakeup: 7},
		{Loop: 1, Answered: true, Age: 101, Busy: 50, Wakeup: 5000, Resume: 6000}}
	now.Requests.Total += 10
	for _, c := range []struct {
		before []metrics.Loop
		want   []string
	}{
		{before.Loops, []string{"requests    -/s,", "bytes       -/s sent, -/s received",
			"   0  50.0%          7          0", "   1      -          -          -",
			"         5         -"}},
		{[]metrics.Loop{before.Loops[0], {Loop: 1, Answered: true, Age: 100, Busy: 49, Wakeup: 4900}},
			[]string{"requests    10.0/s,", "bytes       0 B/s sent", "   1 100.0%        100       6000",
				"         5       0.0"}},
	} {
		before.Loops = c.before
		text := strings.Join(render(&before, &now), "\n")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
	held := now
	held.Time, held.Loops = now.Time.Add(time.Second), before.Loops[:1]
	held.Loops = append(held.Loops, metrics.Loop{Loop: 1})
	if text := strings.Join(render(&now, &held), "\n"); !strings.Contains(text, "requests    0.0/s") {
		t.Errorf("while it does not answer:\n%s", text)
	}
}

func TestMistakes(t *testing.T) {
	tcp := httptest.NewServer(http.HandlerFunc(serve))
	defer tcp.Close()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-x"}, 2, `unexpected argument "-x"`},
		{[]string{"localhost"}, 2, "expected http://"},
		{[]string{"unix:"}, 2, "expected unix:/path/of/socket"},
		{[]string{tcp.URL}, 1, "404"},
		{[]string{"unix:" + filepath.Join(t.TempDir(), "none")}, 1, "no such file"},
	} {
		if code, _, errors := run(t, c.args...); code != c.code || !strings.Contains(errors, c.says) {
			t.Errorf("%q: %d, %s", c.args, code, errors)
		}
	}
}

// TestTerminal: on a terminal it draws until q comes, and leaves the terminal as it was.
func TestTerminal(t *testing.T) {
	tcp := httptest.NewServer(http.HandlerFunc(serve))
	defer tcp.Close()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer tty.Close()
	must.Do(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 8, Col: 40}))
	was := must.Get(unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS))(t)
	code := make(chan int, 1)
	go func() { code <- Main([]string{tcp.URL + "/status"}, tty, tty, io.Discard) }()
	var seen []byte
	buf := make([]byte, 4096)
	for strings.Count(string(seen), clearBelow) < 2 {
		n := must.Get(master.Read(buf))(t)
		seen = append(seen, buf[:n]...)
	}
	must.Get(master.Write([]byte("q")))(t)
	select {
	case got := <-code:
		if got != 0 {
			t.Errorf("exit code %d", got)
		}
	case <-time.After(wait.Patience):
		t.Fatal("q does not end it")
	}
	for !strings.HasSuffix(string(seen), leaveScreen) {
		n, err := master.Read(buf)
		if err != nil {
			t.Fatalf("%v behind %q", err, seen)
		}
		seen = append(seen, buf[:n]...)
	}
	text := strings.ReplaceAll(string(seen), "\r\r\n", "\r\n") // as the terminal makes of \n
	first, _, _ := strings.Cut(strings.TrimPrefix(text, enterScreen+cursorHome), clearBelow)
	if lines := strings.Split(first, "\r\n"); len(lines) != 8 ||
		!strings.HasPrefix(lines[0], "lwango v1") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	for _, line := range strings.Split(first, "\r\n") {
		if len(strings.TrimSuffix(line, clearToLineEnd)) > 40 {
			t.Errorf("too long: %q", line)
		}
	}
	if now, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS); err != nil || *now != *was {
		t.Errorf("the terminal is not as it was: %v", err)
	}
}
