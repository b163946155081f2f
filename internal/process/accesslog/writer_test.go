package accesslog_test

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// BenchmarkRequest has the writing of the lines in it.
func BenchmarkRequest(b *testing.B) {
	a, _ := open(b, filepath.Join(b.TempDir(), "log"))
	defer a.Close()
	a.format("json")
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

func TestReopen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	a, _ := open(t, path)
	loops := []*loop.Loop{new(loop.Loop), new(loop.Loop)}
	a.LogRequest(loops[0], entry())
	a.LogRequest(loops[1], entry())
	must.Do(t, os.Rename(path, path+".1"))
	a.Reopen()
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
	b := must.Get(os.ReadFile(path))(t)
	return bytes.Count(b, []byte{'\n'})
}

// A file that takes nothing must not hold up a loop nor take its memory; what is dropped is
// counted. The file is a FIFO that is not read until the end.
func TestStuck(t *testing.T) {
	defer accesslog.SetStuck(time.Second, 10*time.Millisecond)()
	path, reader := fifo(t)
	a, log := open(t, path)
	lp := new(loop.Loop)
	e := entry()
	e.UserAgent = bytes.Repeat([]byte{'x'}, 1000)
	total := 4 * accesslog.BufferSize / 1000
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

// TestBurst: the room that a burst has taken is given up.
func TestBurst(t *testing.T) {
	a, _ := open(t, filepath.Join(t.TempDir(), "log"))
	defer a.Close()
	lp, e := new(loop.Loop), entry()
	for range 5 * accesslog.BufferSize / 8 / 100 {
		e.Share = conn.Share{} // another connection's: nobody has the lines written before their time
		a.LogRequest(lp, e)
	}
	if n := a.Room(); n < accesslog.BufferSize/4 {
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

// A line costs no memory but the buffer's, which grows a few times and stays.
func TestRequestAllocates(t *testing.T) {
	a, _ := open(t, filepath.Join(t.TempDir(), "log"))
	defer a.Close()
	lp, e := new(loop.Loop), entry()
	if n := testing.AllocsPerRun(500, func() { a.LogRequest(lp, e) }); n > 0 {
		t.Errorf("%v allocations a line", n)
	}
}
