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
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// snapshot is a server that has done half of all in the last minute.
var snapshot = func() metrics.Snapshot {
	ago := metrics.Snapshot{Uptime: 40, PID: 7, Process: metrics.Process{CPU: 6},
		Refusals: map[string]int64{"slow": 2},
		Requests: metrics.Requests{Total: 400, Errors: 1},
		Loops:    []metrics.Loop{{Answered: true, Age: 40, Busy: 10}, {Loop: 1, Answered: true}},
		Routes: []metrics.Route{{Site: "*", Route: "/quick", Status: [6]int64{2: 5}, Times: []int64{5},
			Spent: 0.001, Cache: map[string]int64{"hit": 7, "miss": 3}},
			{Site: "*", Route: "/unused", Status: [6]int64{2: 9}, Times: []int64{9}}},
		Upstreams: []metrics.Upstream{{Site: "*", Route: "/p", Address: "127.0.0.1:9", Requests: 40}},
		Cache:     &metrics.Cache{Fills: 3, Dropped: 8, Evicted: 1},
		Streams:   []metrics.Stream{{Address: "*:5432", Accepted: 6, Refused: 4}},
		Handlers: []metrics.Counted{{Kind: "mirror", Site: "*", Route: "/m", Of: "/next",
			Counts: []metrics.Count{{Name: "requests", Value: 10}, {Name: "active", Value: 3, Gauge: true}}}}}
	return metrics.Snapshot{Version: "v1", PID: 7, Uptime: 100, Time: time.Now(), MinuteAgo: &ago,
		Recent: &metrics.Recent{Interval: 5, Requests: []float64{metrics.Unknown, 0, 1, 20},
			Errors: []float64{0, 0, 0, 0}, P99: []float64{0.001, 0.002, 0.001, 0.004},
			Connections: []float64{3, 3, 3, 3}},
		Warnings:    []string{"Upstream 127.0.0.1:9 has failed."},
		Requests:    metrics.Requests{Total: 1000, Errors: 4, Running: 1},
		Connections: metrics.Connections{Open: 3, Idle: 2, Busy: 1, FailedHandshakes: 4},
		Handshakes:  metrics.Slots{Taken: 1, Waiting: 5},
		Loops:       []metrics.Loop{{Answered: true, Age: 100, Busy: 25}, {Loop: 1, Stalls: 2}},
		Routes: []metrics.Route{
			{Site: "*", Route: "/bad\x1b[31m", Status: [6]int64{5: 3}, Times: []int64{3}, Spent: 3,
				Codes: map[string]int64{"502": 2, "504": 1}},
			{Site: "*", Route: "/quick", Status: [6]int64{2: 605}, Times: []int64{605}, Spent: 0.061,
				Cache: map[string]int64{"hit": 12, "miss": 3}},
			ago.Routes[1],
		},
		Cache: &metrics.Cache{MemoryObjects: 3, MemoryBytes: 2048, DiskObjects: 4, DiskBytes: 4096,
			Filling: 1, Fills: 9, Dropped: 8, Evicted: 7},
		Streams: []metrics.Stream{
			{Address: "*:5432", Open: 3, Accepted: 18, Refused: 4, Failed: 5, Got: 122880, Sent: 60}},
		Handlers: []metrics.Counted{{Kind: "mirror", Site: "*", Route: "/m", Of: "/next",
			Counts: []metrics.Count{{Name: "requests", Value: 17}, {Name: "active", Value: 8, Gauge: true}}}},
		Upstreams: []metrics.Upstream{
			{Site: "*", Route: "/q", Address: "127.0.0.1:8", Up: true},
			{Site: "*", Route: "/p", Address: "127.0.0.1:9", Requests: 100,
				Failures: metrics.Failures{Connect: 2}},
			{Site: "*", Route: "/q", Address: "127.0.0.1:9", Requests: 100,
				Failures: metrics.Failures{Connect: 2}}},
		Refusals: map[string]int64{"slow": 6, "spool": 0},
		Process:  metrics.Process{CPU: 36, Resident: 1 << 25, OpenFiles: 20, MaxFiles: 1024},
		Reload:   metrics.Reload{Configured: time.Now(), Last: time.Now(), Error: "no"},
		Logs:     metrics.Logs{Access: 9},
		Draining: []metrics.Draining{{PID: 6, Connections: 12, Until: time.Now()}},
		Stalls:   []metrics.Stall{{Loop: 1, Held: 0.25, Place: "main.compute main.go:3"}},
	}
}()

func serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/status/json" {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(snapshot)
}

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

// TestOnce: into a pipe it prints all that there is, in full, and ends.
func TestOnce(t *testing.T) {
	older := strings.Repeat(" ", metrics.HistorySamples-4)
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
		for _, want := range []string{
			"lwango v1\nprocess 7, up 1m40s, rates of the last minute\n",
			"! Upstream 127.0.0.1:9 has failed.\n",
			"requests/s         10  " + older + " ▁▂█  highest 20\n",
			"errors/s         0.05  " + older + "▁▁▁▁  highest 0\n",
			"99 % within     63 µs  " + older + "▃▅▃█  highest 4.0 ms\n",
			"connections         3  " + older + "████  highest 3\n",
			"REQ/S  5XX  4XX  LEFT    MEAN   99 %  SENT/S  ROUTE\n" +
				" 0.05    3    0     0   1.0 s  63 µs     0 B  * /bad?[31m (502: 2, 504: 1)\n" +
				"   10    0    0     0  100 µs  63 µs     0 B  * /quick\n",
			" STATE  REQ/S  FAILED  99 %  ACTIVE  IDLE  WAITING  UPSTREAM\n" +
				"failed    1.0       2             0     0        0  127.0.0.1:9 of * /p and 1 more\n" +
				"    up      0       0             0     0        0  127.0.0.1:8 of * /q\n",
			"cache       3 in memory (2.0 KiB), 4 on disk (4.0 KiB), 1 filling, 0.1/s kept, 6 evicted\n" +
				"            * /quick: 5 hit\n",
			"\nconnections 2 idle, 1 busy, 0/s accepted\n",
			"4 failed handshakes, 4 refused by slow, 5 handshakes wait",
			"process     50 % of a CPU, 32 MiB memory, 0 B of it heap, 20 of 1024 files open,",
			"9 lost lines of access logs", "reload refused ", "process 6: 12 connections, until ",
			"25 %           0          0        0      0       0        0       0  0\n",
			"1 held up by a handler\n", "main.compute main.go:3",
			"   3         0.2        0       5     2.0 KiB     1 B  *:5432\n",
			"REQUESTS  ACTIVE  MIRROR\n       7       8  * /m /next\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", address, want, out)
			}
		}
		if strings.Contains(out, "/unused") {
			t.Errorf("a route without requests:\n%s", out)
		}
	}
}

// TestNoRates: without a look a minute ago there are no rates. An average since the start of the
// server is none.
func TestNoRates(t *testing.T) {
	now := snapshot
	now.MinuteAgo = nil
	text := textOf(render(&now, 0, 0))
	for _, want := range []string{"no rates yet", "requests/s          -", "errors/s            -",
		"99 % within         -", "connections         3", " -/s accepted", " - "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "ROUTE") {
		t.Errorf("routes since the start:\n%s", text)
	}
}

func textOf(lines []line) (text string) {
	for _, l := range lines {
		text += l.text + "\n"
	}
	return text
}

// TestRoom: a narrow terminal gets the figures that matter most, and a name in full as long as it
// has room; a wide one gets all of them.
func TestRoom(t *testing.T) {
	now := snapshot
	for len(now.Recent.Requests) < 60 {
		now.Recent.Requests = append(now.Recent.Requests, 10)
	}
	now.Routes = append(now.Routes[:3:3], metrics.Route{Site: "www.example.org",
		Route: "/orders/by-customer", Status: [6]int64{2: 1000}, Times: []int64{1000}})
	for i := range 100 {
		now.Routes = append(now.Routes[:len(now.Routes):len(now.Routes)], metrics.Route{Site: "*",
			Route: "/r" + strconv.Itoa(i), Status: [6]int64{2: 1}, Times: []int64{1}})
	}
	for columns := range 30 { // hardly any room, and a server without a history
		render(&now, columns, 2)
		render(&metrics.Snapshot{}, columns, 0)
	}
	for _, c := range []struct {
		columns    int
		want, none string
	}{
		{140, "REQ/S  5XX  4XX  LEFT", ""},
		{100, "REQ/S  5XX  4XX  LEFT    MEAN   99 %  SENT/S  ROUTE", ""},
		{60, "REQ/S  5XX  4XX  LEFT   99 %  ROUTE", "MEAN"},
		{40, "REQ/S  5XX  ROUTE", "LEFT"},
	} {
		lines := render(&now, c.columns, 30)
		for _, l := range lines {
			if n := len([]rune(l.text)); n > c.columns {
				t.Errorf("%d columns: %d in %q", c.columns, n, l.text)
			}
		}
		text := textOf(lines)
		routes, _, _ := strings.Cut(text, "STATE")
		if !strings.Contains(routes, c.want) || c.none != "" && strings.Contains(routes, c.none) ||
			!strings.Contains(routes, "and 93 more") {
			t.Errorf("%d columns:\n%s", c.columns, text)
		}
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

var styles = regexp.MustCompile("\x1b\\[[0-9]*m")

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
		!strings.HasPrefix(lines[0], string(heading)+"lwango v1") {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	for _, line := range strings.Split(first, "\r\n") {
		line = styles.ReplaceAllString(strings.TrimSuffix(line, clearToLineEnd), "")
		if len([]rune(line)) > 40 {
			t.Errorf("too long: %q", line)
		}
	}
	if now, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS); err != nil || *now != *was {
		t.Errorf("the terminal is not as it was: %v", err)
	}
}
