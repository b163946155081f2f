package accesslog_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// daemon is what receives datagrams.
func daemon(t *testing.T, network, address string) net.PacketConn {
	t.Helper()
	c := must.Get(net.ListenPacket(network, address))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func receive(t *testing.T, c net.PacketConn) string {
	t.Helper()
	b := make([]byte, 64<<10)
	_ = c.SetReadDeadline(time.Now().Add(wait.Patience))
	n, _, err := c.ReadFrom(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

const combinedEntry = `192\.0\.2\.7 - - \[[^]]*\] "GET /a\?b HTTP/1\.1" 200 12 "-" "-"`

// TestDatagrams: a line is one datagram, in the form that the daemon reads.
func TestDatagrams(t *testing.T) {
	dir := t.TempDir()
	pid := fmt.Sprint(os.Getpid())
	udp := daemon(t, "udp", "127.0.0.1:0")
	for _, row := range []struct {
		path string
		to   net.PacketConn
		want string
	}{
		{"syslog:unix:" + dir + "/log", daemon(t, "unixgram", dir+"/log"),
			`^<190>[A-Z][a-z]{2} [ 1-3][0-9] [0-9:]{8} lwango\[` + pid + `\]: ` + combinedEntry + `$`},
		{"syslog:" + udp.LocalAddr().String(), udp,
			`^<190>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z [!-~]+ lwango ` + pid + ` access - ` +
				combinedEntry + `$`},
		{"journald:unix:" + dir + "/journal", daemon(t, "unixgram", dir+"/journal"),
			"^PRIORITY=6\nSYSLOG_IDENTIFIER=lwango\nMESSAGE=" + combinedEntry + "\n$"},
	} {
		a, text := open(t, row.path)
		lp := new(loop.Loop)
		for range 3 {
			a.LogRequest(lp, entry())
		}
		a.Flush()
		for range 3 {
			if got := receive(t, row.to); !regexp.MustCompile(row.want).MatchString(got) {
				t.Errorf("%s: %q", row.path, got)
			}
		}
		a.Close()
		if text.String() != "" {
			t.Errorf("%s: %s", row.path, text.String())
		}
	}
}

// TestDaemonLeaves: a daemon that is not there costs lines, which are counted, and gets the
// next ones when it is there again.
func TestDaemonLeaves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	a, text := open(t, "syslog:unix:"+path)
	defer a.Close()
	lp := new(loop.Loop)
	say := func(n int) {
		for range n {
			a.LogRequest(lp, entry())
		}
		a.Flush()
	}
	say(2) // it is not there yet
	for i, lost := range []int{2, 3, 4} {
		c := daemon(t, "unixgram", path)
		say(1)
		receive(t, c)
		want := fmt.Sprintf("written again\" path=syslog:unix:%s lost=%d\n", path, lost)
		if !strings.HasSuffix(text.String(), want) ||
			strings.Count(text.String(), "cannot be written") != i+1 {
			t.Fatalf("round %d, %d are lost:\n%s", i, lost, text.String())
		}
		// One that is restarted meanwhile costs nothing.
		c.Close()
		os.Remove(path)
		c = daemon(t, "unixgram", path)
		say(2)
		receive(t, c)
		receive(t, c)
		c.Close()
		os.Remove(path)
		say(lost + 1)
	}
}

// TestDaemonStalls: a daemon that does not read holds up neither the loops, nor the writer
// for long; what it does not take is counted.
func TestDaemonStalls(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	c := daemon(t, "unixgram", path)
	a, text := open(t, "journald:unix:"+path)
	lp := new(loop.Loop)
	total := 0
	for range 3 {
		for range 1000 {
			a.LogRequest(lp, entry()) // does not wait
			total++
		}
		a.Flush()
	}
	if n := strings.Count(text.String(), "cannot be written"); n != 1 {
		t.Errorf("said %d times:\n%s", n, text.String())
	}
	got := make(chan int)
	go func() {
		n, b := 0, make([]byte, 4096)
		for {
			size, _, err := c.ReadFrom(b)
			if err != nil || bytes.Contains(b[:size], []byte("/last")) {
				got <- n
				return
			}
			n++
		}
	}()
	wait.Until(t, "it is written again", func() bool {
		a.LogRequest(lp, entry())
		total++
		a.Flush()
		return strings.Contains(text.String(), "written again")
	})
	last := entry()
	last.Target = []byte("/last")
	a.LogRequest(lp, last)
	a.Close()
	lost := regexp.MustCompile(`written again.* lost=(\d+)\n`).FindStringSubmatch(text.String())
	if n := <-got; lost == nil || fmt.Sprint(total-n) != lost[1] {
		t.Errorf("%d of %d have come, lost: %v\n%s", n, total, lost, text.String())
	}
}

// TestLongDatagram: a line that is too long for a datagram, as only a format makes it, costs
// no other one.
func TestLongDatagram(t *testing.T) {
	c := daemon(t, "udp", "127.0.0.1:0")
	a, text := open(t, "syslog:"+c.LocalAddr().String())
	lp := new(loop.Loop)
	a.LogRequest(lp, entry())
	a.format("{target} " + strings.Repeat("x", 70_000))
	a.LogRequest(lp, entry())
	a.format("combined")
	a.LogRequest(lp, entry())
	a.Close()
	receive(t, c)
	receive(t, c)
	if !strings.Contains(text.String(), "message too long") ||
		!strings.Contains(text.String(), "lost=1\n") {
		t.Error(text.String())
	}
}

// TestUDPRefused: where nothing receives, that is said once, and not for every other line.
func TestUDPRefused(t *testing.T) {
	c := daemon(t, "udp", "127.0.0.1:0")
	at := c.LocalAddr().String()
	c.Close()
	a, text := open(t, "syslog:"+at)
	lp := new(loop.Loop)
	for range 200 {
		a.LogRequest(lp, entry())
		a.Flush()
	}
	a.Close()
	if n := strings.Count(text.String(), "cannot be written"); n != 1 ||
		strings.Contains(text.String(), "written again") ||
		!strings.Contains(text.String(), "lines lost") {
		t.Errorf("said %d times:\n%s", n, text.String())
	}
}
