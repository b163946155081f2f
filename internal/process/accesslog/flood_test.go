package accesslog_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// config is of a server with that log.
func config(a accessLog) conn.Config {
	return conn.Config{AccessLog: a.Config, Handler: func(_ *conn.Request, resp *conn.Response) int {
		resp.WriteString("x")
		return 200
	}}
}

// fifo makes a FIFO, and returns its path and a reader of it, which the test may close before its
// end.
func fifo(t *testing.T) (path string, reader *os.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fifo")
	must.Do(t, syscall.Mkfifo(path, 0o600))
	reader = must.Get(os.OpenFile(path, os.O_RDWR, 0))(t)
	t.Cleanup(func() { reader.Close() })
	return path, reader
}

// TestStuckDelaysNobody: no request of a busy connection waits five seconds, which is
// conn's bound, for a log that is stuck.
func TestStuckDelaysNobody(t *testing.T) {
	defer accesslog.SetStuck(10*time.Millisecond, time.Minute)()
	path, reader := fifo(t)
	a, log := open(t, path)
	srv := server.Start(t, modes.Direct, config(a))
	c := must.Dial(t, "tcp", srv.Addr)
	answers := bufio.NewReader(c)
	long := strings.Repeat("x", 1<<10) // more would be cut
	request := "GET /" + long + " HTTP/1.1\r\nHost: a\r\nReferer: " + long + "\r\nUser-Agent: " +
		long + "\r\n\r\n"
	for range 3 * accesslog.BufferSize / len(request) {
		began := time.Now()
		must.Get(io.WriteString(c, request))(t)
		resp := must.Get(http.ReadResponse(answers, nil))(t)
		_, _ = io.Copy(io.Discard, resp.Body)
		if waited := time.Since(began); waited > 4*time.Second {
			t.Fatalf("a request waited %v for the log", waited)
		}
	}
	reader.Close() // the write fails, and nothing is left to be written
	srv.Stop(wait.Patience)
	a.Close()
	if !strings.Contains(log.String(), "lines dropped") {
		t.Errorf("nothing was dropped:\n%s", log)
	}
}

// Clients that send requests faster than their lines are written do not have those of others
// dropped: they wait. The file is a FIFO that is read slowly.
func TestFlood(t *testing.T) {
	// the reader of a busy machine is slow, not gone
	defer accesslog.SetStuck(wait.Patience, wait.Patience)()
	threads := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(threads)
	path, reader := fifo(t)
	a, log := open(t, path)
	srv := server.Start(t, modes.Direct, config(a))

	var floods sync.WaitGroup
	over := make(chan struct{})
	long := strings.Repeat("x", 5<<10)
	batch := []byte(strings.Repeat("GET /"+long+" HTTP/1.1\r\nHost: a\r\nReferer: "+long+
		"\r\nUser-Agent: "+long[:4<<10]+"\r\n\r\n", 50))
	var flooded atomic.Int64
	for range 4 {
		c := must.Get(net.Dial("tcp", srv.Addr))(t)
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
		resp := must.Get(client.Get(fmt.Sprintf("http://%s/honest/%d", srv.Addr, i)))(t)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	close(over)
	floods.Wait()
	client.CloseIdleConnections()
	srv.Stop(wait.Patience)
	a.Close()
	must.Get(reader.WriteString("last\n"))(t)
	if n := <-seen; n != honest {
		t.Errorf("%d of %d lines are in the log", n, honest)
	}
	if strings.Contains(log.String(), "dropped") {
		t.Error(log.String())
	}
	t.Logf("%d MB of hostile requests meanwhile", flooded.Load()>>20)
}
