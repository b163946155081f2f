package conn_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// benchServer is the variable that makes the test's binary a server of that kind for
// BenchmarkBridge.
const benchServer = "LWANGO_BENCH_SERVER"

var benchHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, "Hello, world!")
})

// benchServe serves hello until its standard input ends.
func benchServe(kind string) {
	handlers := map[string]conn.Handler{
		"Handler": hello, "HTTPOnLoop": conn.HTTPOnLoop(benchHandler), "HTTP": conn.HTTP(benchHandler),
		"bulk_HTTP": conn.HTTP(bulkHandler), "bulk_OnLoop": conn.HTTPOnLoop(bulkHandler),
		"bulk_native": func(req *conn.Request, _ *conn.Response) int {
			buf := make([]byte, 32<<10)
			_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, req.Body(), buf)
			return 200
		},
	}
	if std := map[string]http.Handler{
		"net_http": benchHandler, "bulk_net_http": bulkHandler,
	}[kind]; std != nil {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		fmt.Println(ln.Addr())
		go http.Serve(ln, std)
	} else {
		l, err := loop.New(loop.Options{Handoff: coro.Channel})
		if err != nil {
			panic(err)
		}
		fd, err := loop.Listen("tcp", "127.0.0.1:0", true)
		if err != nil {
			panic(err)
		}
		fmt.Println(loop.LocalAddr(fd))
		if _, err := conn.NewServer(conn.Config{Handler: handlers[kind],
			Limits: conn.Limits{MaxBodySize: -1}}).Listen(l, conn.Listener{FD: fd}); err != nil {
			panic(err)
		}
		go l.Run()
	}
	_, _ = io.ReadAll(os.Stdin)
}

// BenchmarkBridge tells what a small request costs a server: its process's CPU time, in
// nanoseconds. The clients are not counted; 64 of them send one request at a time.
func BenchmarkBridge(b *testing.B) {
	for _, kind := range []string{"net_http", "HTTPOnLoop", "HTTP", "Handler"} {
		b.Run(kind, func(b *testing.B) {
			server := exec.Command(os.Args[0], "-test.run=^$")
			server.Env = append(os.Environ(), benchServer+"="+kind, "GOMAXPROCS=1")
			in, _ := server.StdinPipe()
			out, _ := server.StdoutPipe()
			must.Do(b, server.Start())
			addr := must.Get(bufio.NewReader(out).ReadString('\n'))(b)
			const clients = 64
			var all sync.WaitGroup
			for i := range clients {
				all.Go(func() {
					c, err := net.Dial("tcp", strings.TrimSpace(addr))
					if err != nil {
						b.Error(err)
						return
					}
					defer c.Close()
					raw := []byte(
						"GET /hello HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
					buf := make([]byte, 4<<10)
					for n := i; n < b.N; n += clients {
						if _, err := c.Write(raw); err != nil {
							b.Error(err)
							return
						}
						if n, err := c.Read(buf); err != nil || !strings.HasSuffix(string(buf[:n]), "Hello, world!") {
							b.Errorf("%q, %v", buf[:n], err)
							return
						}
					}
				})
			}
			all.Wait()
			in.Close()
			must.Do(b, server.Wait())
			cpu := server.ProcessState.UserTime() + server.ProcessState.SystemTime()
			b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N), "server-ns/op")
			b.ReportMetric(0, "ns/op")
		})
	}
}
