package conn_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// bulkHandler sends or takes as many bytes as the path says, in pieces of the size that io.Copy
// has.
var bulkHandler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	buf := make([]byte, 32<<10)
	if r.Method == "POST" {
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, buf)
		return
	}
	n, _ := strconv.Atoi(r.URL.Path[1:])
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", r.URL.Path[1:])
	for ; n > 0; n -= len(buf) {
		if _, err := w.Write(buf[:min(n, len(buf))]); err != nil {
			return
		}
	}
})

// BenchmarkBulk tells what large bodies cost a server: its process's CPU time, in milliseconds for
// 512 MiB, on one connection. Uploads are framed by Content-Length or, as net/http's client does
// it, in chunks of 32 KiB. Both clients write pieces of the same length: the kernel takes and gives
// whole pages at less cost.
func BenchmarkBulk(b *testing.B) {
	const size, chunk = 512 << 20, 32 << 10
	framed := fmt.Appendf(nil, "%x\r\n%s\r\n", chunk, make([]byte, chunk))
	down := func(c *net.TCPConn, r *bufio.Reader) error {
		fmt.Fprintf(c, "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", size)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		big := make([]byte, 256<<10)
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, big)
		if err == nil && n != size {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	up := func(head, end string) func(c *net.TCPConn, r *bufio.Reader) error {
		return func(c *net.TCPConn, r *bufio.Reader) error {
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", head)
			for range size / chunk {
				if _, err := c.Write(framed); err != nil {
					return err
				}
			}
			if _, err := io.WriteString(c, end); err != nil {
				return err
			}
			resp, err := http.ReadResponse(r, nil)
			if err == nil && resp.StatusCode != 200 {
				err = fmt.Errorf("%s", resp.Status)
			}
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
			}
			return err
		}
	}
	for _, way := range []struct {
		name string
		run  func(c *net.TCPConn, r *bufio.Reader) error
	}{
		{"down", down},
		{"up", up(fmt.Sprintf("Content-Length: %d", size/chunk*len(framed)), "")},
		{"chunked", up("Transfer-Encoding: chunked", "0\r\n\r\n")},
	} {
		for _, kind := range []string{"bulk_net_http", "bulk_HTTP", "bulk_OnLoop", "bulk_native"} {
			if kind == "bulk_native" && way.name == "down" {
				continue
			}
			b.Run(way.name+"/"+kind[5:], func(b *testing.B) {
				server := exec.Command(os.Args[0], "-test.run=^$")
				server.Env = append(os.Environ(), benchServer+"="+kind)
				in, _ := server.StdinPipe()
				out, _ := server.StdoutPipe()
				must.Do(b, server.Start())
				addr := must.Get(bufio.NewReader(out).ReadString('\n'))(b)
				for range b.N {
					c := must.Get(net.Dial("tcp", strings.TrimSpace(addr)))(b)
					must.Do(b, way.run(c.(*net.TCPConn), bufio.NewReader(c)))
					_ = c.Close()
				}
				in.Close()
				must.Do(b, server.Wait())
				cpu := server.ProcessState.UserTime() + server.ProcessState.SystemTime()
				b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "server-ms/op")
			})
		}
	}
}
