package websocket_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/wire/http2"
)

// BenchmarkStreams compares 64 WebSockets on as many connections of HTTP/1.1 with 64 on four of
// HTTP/2, whose client sends the messages of a connection in one write. Each has one message under
// way. cpu-ns/op is the time of all processors that the server takes for an echo; it is a process
// of its own, with one loop.
func BenchmarkStreams(b *testing.B) {
	const all, conns2 = 64, 4
	s := startEcho(b)
	message := frame(0x82, strings.Repeat("x", 32))
	for _, row := range []struct {
		name    string
		connect func(b *testing.B, addr string) (round func())
		conns   int
	}{
		{"HTTP/1.1", func(b *testing.B, addr string) func() {
			c := &client{server.NewClient(b, must.Dial(b, "tcp", addr))}
			c.Send(handshake + "\r\n")
			c.answered()
			echo := make([]byte, len(message)-4)
			return func() {
				_, _ = io.WriteString(c, message)
				must.Get(io.ReadFull(c.R, echo))(b)
			}
		}, all},
		{"HTTP/2", func(b *testing.B, addr string) func() {
			return connect2(b, must.Dial(b, "tcp", addr), all/conns2, message)
		}, conns2},
	} {
		b.Run(row.name, func(b *testing.B) {
			rounds := make([]func(), row.conns)
			for i := range rounds {
				rounds[i] = row.connect(b, s.addr)
			}
			before := s.cpu()
			b.ResetTimer()
			var done sync.WaitGroup
			for _, round := range rounds {
				done.Go(func() {
					for range (b.N + all - 1) / all {
						round()
					}
				})
			}
			done.Wait()
			b.StopTimer()
			b.ReportMetric(float64(s.cpu()-before)/float64((b.N+all-1)/all*all), "cpu-ns/op")
		})
	}
}

// connect2 opens WebSockets on a connection of HTTP/2. The returned function sends the message on
// each in one write, and waits for as many echoes. It allocates nothing.
func connect2(t testing.TB, c net.Conn, streams int, message string) (round func()) {
	out := http2.AppendHeader([]byte(http2.Preface), http2.SettingsFrame, 0, 0, 0)
	out = http2.AppendWindowUpdate(out, 0, 1<<30)
	var messages []byte
	for i := range streams {
		id := uint32(2*i + 1)
		var block []byte
		for _, f := range [][2]string{{":method", "CONNECT"}, {":scheme", "http"}, {":path", "/"},
			{":authority", "example.org"}, {":protocol", "websocket"}, {"sec-websocket-version", "13"}} {
			block = append(append(block, 0, byte(len(f[0]))), f[0]...)
			block = append(append(block, byte(len(f[1]))), f[1]...)
		}
		out = append(http2.AppendHeader(out, http2.Headers, http2.EndHeaders, id, len(block)), block...)
		out = http2.AppendWindowUpdate(out, id, 1<<30)
		messages = http2.AppendHeader(messages, http2.Data, 0, id, len(message))
		messages = append(messages, message...)
	}
	must.Get(c.Write(out))(t)
	r := bufio.NewReaderSize(c, 64<<10)
	var head [http2.FrameHeaderLen]byte
	await := func(kind http2.Type) {
		for n := 0; n < streams; {
			_, err := io.ReadFull(r, head[:])
			h := http2.ParseHeader(head[:])
			if err == nil {
				_, err = r.Discard(int(h.Length))
			}
			if err != nil {
				t.Error(err)
				return
			}
			if h.Type == kind {
				n++
			}
		}
	}
	await(http2.Headers)
	return func() {
		_, _ = c.Write(messages)
		await(http2.Data)
	}
}

// echoServer is a process that echoes.
type echoServer struct {
	b    *testing.B
	addr string
	in   io.Writer
	out  *bufio.Reader
}

// startEcho runs TestEchoServer as a process of its own.
func startEcho(b *testing.B) *echoServer {
	cmd := exec.Command(must.Get(os.Executable())(b), "-test.run=^TestEchoServer$", "-test.v")
	cmd.Env = append(os.Environ(), echoKey+"=1")
	s := &echoServer{b: b}
	in := must.Get(cmd.StdinPipe())(b)
	s.in, s.out = in, bufio.NewReader(must.Get(cmd.StdoutPipe())(b))
	must.Do(b, cmd.Start())
	b.Cleanup(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, s.out)
		must.Do(b, cmd.Wait())
	})
	s.addr = s.said("listening ")
	return s
}

// said returns what follows a word on a line of the server's.
func (s *echoServer) said(word string) string {
	for {
		line := must.Get(s.out.ReadString('\n'))(s.b)
		if _, text, ok := strings.Cut(line, word); ok {
			return strings.TrimSpace(text)
		}
	}
}

// cpu returns the time that the server has taken of all processors.
func (s *echoServer) cpu() time.Duration {
	must.Get(io.WriteString(s.in, "\n"))(s.b)
	return must.Get(time.ParseDuration(s.said("cpu ")))(s.b)
}

const echoKey = "LWANGO_TEST_ECHO"

// TestEchoServer is no test, but the server of BenchmarkStreams. It says how much time it has taken
// for each line that it reads.
func TestEchoServer(t *testing.T) {
	if os.Getenv(echoKey) == "" {
		t.Skip("a process of BenchmarkStreams")
	}
	s := start(t, modes.HTTP2, echo(new(websocket.Upgrader)))
	fmt.Println("listening", s.Addr)
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		var u syscall.Rusage
		must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		fmt.Println("cpu", time.Duration(u.Utime.Nano()+u.Stime.Nano()))
	}
}
