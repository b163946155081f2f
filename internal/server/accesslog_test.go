package server_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/server"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

func entry() *conn.AccessEntry {
	return &conn.AccessEntry{
		Remote: netip.MustParseAddrPort("192.0.2.7:1234"),
		Time:   time.Date(2026, 2, 3, 4, 5, 6, 0, time.Local),
		Method: "GET", Target: []byte("/a?b"), Proto: "HTTP/1.1",
		Status: 200, Bytes: 12,
	}
}

func TestLogLines(t *testing.T) {
	stamp := entry().Time.Format("[02/Jan/2006:15:04:05 -0700]")
	tests := []struct {
		name, format string
		change       func(e *conn.AccessEntry)
		want         string
	}{
		{"common", "common", func(e *conn.AccessEntry) {}, `192.0.2.7 - - TIME "GET /a?b HTTP/1.1" 200 12`},
		{"combined, nothing sent along", "combined", func(e *conn.AccessEntry) {},
			`192.0.2.7 - - TIME "GET /a?b HTTP/1.1" 200 12 "-" "-"`},
		{"combined", "combined", func(e *conn.AccessEntry) { e.Referer, e.UserAgent = []byte("http://r/"), []byte("ua") },
			`192.0.2.7 - - TIME "GET /a?b HTTP/1.1" 200 12 "http://r/" "ua"`},
		{"a user", "combined", func(e *conn.AccessEntry) { e.User = "ann" },
			`192.0.2.7 - ann TIME "GET /a?b HTTP/1.1" 200 12 "-" "-"`},
		{"a user who would forge a line", "common", func(e *conn.AccessEntry) { e.User = "ann lee \"\n\\ü" },
			`192.0.2.7 - ann\x20lee\x20\x22\x0A\x5C\xC3\xBC TIME "GET /a?b HTTP/1.1" 200 12`},
		{"no body", "common", func(e *conn.AccessEntry) { e.Status, e.Bytes = 304, 0 },
			`192.0.2.7 - - TIME "GET /a?b HTTP/1.1" 304 -`},
		{"IPv6", "common", func(e *conn.AccessEntry) { e.Remote = netip.MustParseAddrPort("[2001:db8::1]:80") },
			`2001:db8::1 - - TIME "GET /a?b HTTP/1.1" 200 12`},
		{"UNIX socket", "common", func(e *conn.AccessEntry) { e.Remote = netip.AddrPort{} },
			`unix: - - TIME "GET /a?b HTTP/1.1" 200 12`},
		{"no request line", "common", func(e *conn.AccessEntry) { e.Method, e.Target, e.Status = "", nil, 400 },
			`192.0.2.7 - - TIME "-" 400 12`},
		{"no request line, but something", "common", func(e *conn.AccessEntry) {
			e.Method, e.Target, e.Status, e.Line = "", nil, 400, []byte("\x16\x03\x01 \"x\"")
		}, `192.0.2.7 - - TIME "\x16\x03\x01 \x22x\x22" 400 12`},
		{"a WebSocket", "combined", func(e *conn.AccessEntry) {
			e.Status, e.Bytes, e.Hijacked, e.Duration, e.CloseCode = 101, 0, true, 83*time.Second+4567*time.Microsecond, 1001
		}, `192.0.2.7 - - TIME "GET /a?b HTTP/1.1" 101 - "-" "-" duration=83.005 close=1001`},
		{"another protocol", "common", func(e *conn.AccessEntry) {
			e.Status, e.Bytes, e.Hijacked, e.Duration = 101, 0, true, 1500*time.Microsecond
		}, `192.0.2.7 - - TIME "GET /a?b HTTP/1.1" 101 - duration=0.002`},
		{"a forged line", "combined", func(e *conn.AccessEntry) {
			e.Target, e.UserAgent = []byte(`/"`), []byte("x\"\n1.2.3.4 - - \\ \x1b[2J\x7f\xc3\xa4")
		}, `192.0.2.7 - - TIME "GET /\x22 HTTP/1.1" 200 12 "-" "x\x22\x0A1.2.3.4 - - \x5C \x1B[2J\x7F\xC3\xA4"`},
	}
	full := func(e *conn.AccessEntry) {
		e.Time = time.Date(2026, 2, 3, 4, 5, 6, 7_890_000, time.UTC)
		e.Host, e.Referer, e.UserAgent, e.User = []byte("h.test"), []byte("r"), []byte("u\"\\\n\x1b\x7f\xc2\x9b\xffä€"), "ann lee"
		e.Secure, e.Duration, e.CloseCode = true, 1234567*time.Nanosecond, 1001
		e.ID, e.Received, e.TLSVersion, e.CipherSuite = []byte("abc-1"), 345, tls.VersionTLS13, tls.TLS_AES_128_GCM_SHA256
		e.Upstream, e.UpstreamFirst, e.UpstreamTime = "unix:/run/\"a", 250*time.Millisecond, 61*time.Second+time.Microsecond
	}
	tests = append(tests, []struct {
		name, format string
		change       func(e *conn.AccessEntry)
		want         string
	}{
		{"json", "json", full, `{"time":"2026-02-03T04:05:06.007Z","request_id":"abc-1","remote":"192.0.2.7","user":"ann lee","method":"GET",` +
			`"scheme":"https","host":"h.test","target":"/a?b","proto":"HTTP/1.1","tls_version":"TLSv1.3","tls_cipher":"TLS_AES_128_GCM_SHA256",` +
			`"status":200,"bytes":12,"bytes_in":345,"duration":0.001235,` +
			`"upstream":"unix:/run/\"a","upstream_first_byte":0.250000,"upstream_time":61.000001,` +
			`"referer":"r","user_agent":"u\"\\\u000a\u001b\u007f\u009b` + "\ufffdä€" + `","close":1001}`},
		{"json, no request line", "json", func(e *conn.AccessEntry) {
			e.Time = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
			e.Method, e.Target, e.Status, e.Line = "", nil, 400, []byte("\x16\x03")
			e.ID, e.Received = []byte("2f"), 2
		}, `{"time":"2026-02-03T04:05:06.000Z","request_id":"2f","remote":"192.0.2.7","line":"\u0016\u0003","status":400,"bytes":12,"bytes_in":2,"duration":0.000000}`},
		{"json, an upstream that did not answer", "json", func(e *conn.AccessEntry) {
			e.Time = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
			e.ID, e.Upstream, e.UpstreamTime, e.Duration = []byte("2f"), "a:1", time.Second, -1
		}, `{"time":"2026-02-03T04:05:06.000Z","request_id":"2f","remote":"192.0.2.7","method":"GET","scheme":"http","target":"/a?b",` +
			`"proto":"HTTP/1.1","status":200,"bytes":12,"bytes_in":0,"duration":0.000000,"upstream":"a:1","upstream_time":1.000000}`},
		{"text, all that is new", `{request_id} {bytes_in} {tls_version} {tls_cipher} {upstream} {upstream_first_byte} {upstream_time}`,
			full, `abc-1 345 TLSv1.3 TLS_AES_128_GCM_SHA256 unix:/run/\x22a 0.250000 61.000001`},
		{"text, nothing of it", `{request_id} {bytes_in} {tls_version} {tls_cipher} {upstream} {upstream_first_byte} {upstream_time}`,
			func(e *conn.AccessEntry) {}, `- 0 - - - - -`},
		{"text", `{remote} {user} {time_iso8601} "{request}" {method} {target} {proto} {scheme} {host} {status} {bytes} {duration} "{referer}" "{user_agent}" {close} {x y}`,
			full, `192.0.2.7 ann\x20lee 2026-02-03T04:05:06.007Z "GET /a?b HTTP/1.1" GET /a?b HTTP/1.1 https h.test 200 12 0.001235 "r" ` +
				`"u\x22\x5C\x0A\x1B\x7F\xC2\x9B\xFF\xC3\xA4\xE2\x82\xAC" 1001 {x y}`},
		{"text, little sent", `{remote} [{time}] {user} {host} {referer} {scheme} {close}`, func(e *conn.AccessEntry) { e.Method = "" },
			`192.0.2.7 TIME - - - http -`},
	}...)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := entry()
			test.change(e)
			got := server.LogLine(test.format, e)
			want := strings.Replace(test.want, "TIME", stamp, 1) + "\n"
			if got != want {
				t.Errorf("\n got %q\nwant %q", got, want)
			}
		})
	}
}

// TestLogFormats: what is no format is refused with what there is.
func TestLogFormats(t *testing.T) {
	for _, row := range []struct{ format, want string }{
		{"{stats}", "unknown placeholder {stats} (known: {bytes}, "},
		{"$remote_addr {status}", "$remote_addr: placeholders are written in braces"},
		{"{status}\n", "no control characters"},
		{"JSON", `expected "combined", "common", "json" or a text with placeholders`},
		{"", ""}, {"json", ""}, {"{status}", ""}, {"{status}\t{bytes}", ""},
	} {
		err := server.ParseFormat(row.format)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%q: %v, want %q", row.format, err, row.want)
		}
	}
}

// FuzzLogJSON: whatever clients send, a line is one JSON object with the texts that are UTF-8.
func FuzzLogJSON(f *testing.F) {
	f.Add("/a", "h", "agent")
	f.Add("/\x00\n\"\\", "\xff\xc2\x9b", "\u2028€")
	f.Fuzz(func(t *testing.T, target, host, agent string) {
		e := entry()
		e.Target, e.Host, e.UserAgent = []byte(target), []byte(host), []byte(agent)
		line := server.LogLine("json", e)
		var got struct {
			Target, Host string
			Agent        string `json:"user_agent"`
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		for got, sent := range map[string]string{got.Target: target, got.Host: host, got.Agent: agent} {
			if got != strings.ToValidUTF8(sent, "\ufffd") && utf8.ValidString(sent) {
				t.Errorf("%q became %q", sent, got)
			}
		}
		if strings.IndexByte(line, '\n') != len(line)-1 || strings.ContainsAny(line[:len(line)-1], "\x00\x1b\x7f") {
			t.Errorf("control characters in %q", line)
		}
	})
}

func BenchmarkLogLine(b *testing.B) {
	e := entry()
	e.Host, e.UserAgent = []byte("example.org"), []byte("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0")
	for name, format := range map[string]string{"combined": "combined", "json": "json", "text": `{remote} - {user} [{time}] "{request}" {status} {bytes} "{referer}" "{user_agent}"`} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			line := server.LineOf(format)
			for b.Loop() {
				line(e)
			}
		})
	}
}

// BenchmarkLogRequest has the writing of the lines in it.
func BenchmarkLogRequest(b *testing.B) {
	a, err := server.OpenAccessLog(filepath.Join(b.TempDir(), "log"), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	a.Format("json")
	lp, e := new(loop.Loop), entry()
	e.ID, e.Host = []byte("0123456789abcdef0123456789abcdef"), []byte("example.org")
	e.UserAgent = []byte("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0")
	b.ReportAllocs()
	for b.Loop() {
		if !a.LogRequest(lp, e) {
			a.Flush()
		}
	}
}

func TestAccessLogReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	a, err := server.OpenAccessLog(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	loops := []*loop.Loop{new(loop.Loop), new(loop.Loop)}
	a.LogRequest(loops[0], entry())
	a.LogRequest(loops[1], entry())
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := a.Reopen(path); err != nil {
		t.Fatal(err)
	}
	a.LogRequest(loops[0], entry())
	a.Close()
	if got := lines(t, path+".1"); got != 2 {
		t.Errorf("%d lines in the old file, want 2", got)
	}
	if got := lines(t, path); got != 1 {
		t.Errorf("%d lines in the new file, want 1", got)
	}
}

func lines(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte{'\n'})
}

// A file that takes nothing must not hold up a loop nor take its memory; what is dropped is
// counted. The file is a FIFO that is not read until the end.
func TestAccessLogStuck(t *testing.T) {
	defer server.SetLogStuck(time.Second, 10*time.Millisecond)()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	log := new(logtext.Buffer)
	a, err := server.OpenAccessLog(path, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	lp := new(loop.Loop)
	e := entry()
	e.UserAgent = bytes.Repeat([]byte{'x'}, 1000)
	total := 4 * server.LogBufferSize / 1000
	for range total {
		a.LogRequest(lp, e) // the test ends, so it does not wait
	}
	const usual = 40
	for range usual { // they are short, and find room where those of the flood do not any more
		e := entry()
		e.Target = []byte("/usual")
		a.LogRequest(lp, e)
	}

	wait.Until(t, "a line that says so", func() bool {
		return strings.Contains(log.String(), "access log: a write is stuck")
	})
	written, usualWritten := make(chan int), 0
	go func() {
		n := 0
		for sc := bufio.NewScanner(reader); sc.Scan() && sc.Text() != "last"; {
			n++
			if strings.Contains(sc.Text(), "GET /usual") {
				usualWritten++
			}
		}
		written <- n
	}()
	a.Close()
	if _, err := reader.WriteString("last\n"); err != nil {
		t.Fatal(err)
	}
	n := <-written
	if n == 0 || n >= total {
		t.Errorf("%d of %d lines written, want some to be dropped", n, total)
	}
	if usualWritten != usual {
		t.Errorf("%d of %d usual lines written", usualWritten, usual)
	}
	if !strings.Contains(log.String(), "access log: lines dropped") {
		t.Errorf("nothing was said about dropped lines:\n%s", log.String())
	}
}

// TestAccessLogStuckDelaysNobody: no request of a busy connection waits five seconds, which is
// conn's bound, for a log that is stuck.
func TestAccessLogStuckDelaysNobody(t *testing.T) {
	defer server.SetLogStuck(10*time.Millisecond, time.Minute)()
	dir := t.TempDir()
	path := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	log := new(logtext.Buffer)
	s := source()
	s.Logger = logtext.Logger(t, log)
	config, err := s.Parse(filepath.Join(dir, "t.conf"), "threads = 1\n[[listener]]\naddress = \"127.0.0.1:0\"\n"+
		"[access_log]\npath = \"fifo\"\n"+route("prefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.Start(s, config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", srv.Addresses()[0])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answers := bufio.NewReader(c)
	long := strings.Repeat("x", 1<<10) // more would be cut
	request := "GET /" + long + " HTTP/1.1\r\nHost: a\r\nReferer: " + long + "\r\nUser-Agent: " + long + "\r\n\r\n"
	for range 3 * server.LogBufferSize / len(request) {
		began := time.Now()
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if waited := time.Since(began); waited > 4*time.Second {
			t.Fatalf("a request waited %v for the log", waited)
		}
	}
	reader.Close() // the write fails, and nothing is left to be written
	srv.Stop()
	if err := srv.Wait(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "lines dropped") {
		t.Errorf("nothing was dropped:\n%s", log)
	}
}

// TestAccessLogBurst: the room that a burst has taken is given up.
func TestAccessLogBurst(t *testing.T) {
	a, err := server.OpenAccessLog(filepath.Join(t.TempDir(), "log"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	lp, e := new(loop.Loop), entry()
	for range 5 * server.LogBufferSize / 8 / 100 {
		e.Share = conn.Share{} // another connection's: nobody has the lines written before their time
		a.LogRequest(lp, e)
	}
	if n := a.Room(); n < server.LogBufferSize/4 {
		t.Fatalf("a burst of %d bytes", n)
	}
	for range 3 {
		a.LogRequest(lp, e)
		a.Flush()
	}
	if n := a.Room(); n > 128<<10 {
		t.Errorf("the buffers have %d bytes behind it", n)
	}
}

// Clients that send requests faster than their lines are written do not have those of others
// dropped: they wait. The file is a FIFO that is read slowly.
func TestAccessLogFlood(t *testing.T) {
	defer server.SetLogStuck(wait.Patience, wait.Patience)() // the reader of a busy machine is slow, not gone
	threads := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(threads)
	dir := t.TempDir()
	path := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	log := new(logtext.Buffer)
	s := source()
	s.Logger = logtext.Logger(t, log)
	config, err := s.Parse(filepath.Join(dir, "t.conf"), "threads = 1\n[[listener]]\naddress = \"127.0.0.1:0\"\n"+
		"[access_log]\npath = \"fifo\"\n"+route("prefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.Start(s, config)
	if err != nil {
		t.Fatal(err)
	}
	address := srv.Addresses()[0]

	var floods sync.WaitGroup
	over := make(chan struct{})
	long := strings.Repeat("x", 5<<10)
	batch := []byte(strings.Repeat("GET /"+long+" HTTP/1.1\r\nHost: a\r\nReferer: "+long+"\r\nUser-Agent: "+long[:4<<10]+"\r\n\r\n", 50))
	var flooded atomic.Int64
	for range 4 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		floods.Go(func() {
			for {
				n, err := c.Write(batch)
				if flooded.Add(int64(n)); err != nil {
					return
				}
			}
		})
		floods.Go(func() { _, _ = io.Copy(io.Discard, c) })
		go func() { <-over; c.Close() }()
	}

	seen := make(chan int)
	go func() {
		n := 0
		r := bufio.NewReaderSize(reader, 64<<10)
		for rate := 0; ; {
			line, err := r.ReadSlice('\n')
			if err != nil || string(line) == "last\n" {
				break
			}
			if len(line) > 3<<10+200 {
				t.Errorf("a line of %d bytes", len(line))
			}
			if bytes.Contains(line, []byte("GET /honest/")) {
				n++
			}
			if rate += len(line); rate > 1<<20 { // 20 MB a second: what is slow here is the disk
				rate = 0
				time.Sleep(50 * time.Millisecond)
			}
		}
		seen <- n
	}()
	client := http.Client{Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	const honest = 500
	for i := range honest {
		resp, err := client.Get(fmt.Sprintf("http://%s/honest/%d", address, i))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	close(over)
	floods.Wait()
	client.CloseIdleConnections()
	srv.Stop()
	if err := srv.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := reader.WriteString("last\n"); err != nil {
		t.Fatal(err)
	}
	if n := <-seen; n != honest {
		t.Errorf("%d of %d lines are in the log", n, honest)
	}
	if strings.Contains(log.String(), "dropped") {
		t.Error(log.String())
	}
	t.Logf("%d MB of hostile requests meanwhile", flooded.Load()>>20)
}

// A line costs no memory but the buffer's, which grows a few times and stays.
func TestLogRequestAllocates(t *testing.T) {
	a, err := server.OpenAccessLog(filepath.Join(t.TempDir(), "log"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	lp, e := new(loop.Loop), entry()
	if n := testing.AllocsPerRun(500, func() { a.LogRequest(lp, e) }); n > 0 {
		t.Errorf("%v allocations a line", n)
	}
}
