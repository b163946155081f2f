package client_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestBodyReader: bodies that come from a reader, with a length and without.
func TestBodyReader(t *testing.T) {
	text := strings.Repeat("0123456789", 50_000)
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/303", "/307":
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Location", "/")
			w.WriteHeader(300 + int(r.URL.Path[3]-'0'))
			return
		}
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(w, r.Method, r.ContentLength, r.TransferEncoding, len(body), strings.HasPrefix(text, string(body)), err)
	}))
	defer o.Close()
	broken := errors.New("broken")
	onThread(t, func(th *loop.Thread) {
		for _, tt := range []struct {
			path   string
			from   io.Reader
			length int64
			want   string
			err    error
		}{
			{"/", strings.NewReader(text), 0, "200 POST-1 [chunked] 500000 true <nil>", nil},
			{"/", strings.NewReader(text), -1, "200 POST-1 [chunked] 500000 true <nil>", nil},
			{"/", strings.NewReader(text), 500_000, "200 POST500000 [] 500000 true <nil>", nil},
			{"/", strings.NewReader(text), 10, "200 POST10 [] 10 true <nil>", nil},
			{"/", strings.NewReader(""), 0, "200 POST-1 [chunked] 0 true <nil>", nil},
			{"/", iotest.OneByteReader(strings.NewReader(text[:300])), 0, "200 POST-1 [chunked] 300 true <nil>", nil},
			{"/", iotest.DataErrReader(strings.NewReader(text[:300])), 0, "200 POST-1 [chunked] 300 true <nil>", nil},
			{"/", iotest.DataErrReader(strings.NewReader(text[:300])), 300, "200 POST300 [] 300 true <nil>", nil},
			{"/", strings.NewReader("abc"), 4, "", io.ErrUnexpectedEOF},
			{"/", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), 0, "", broken},
			{"/303", strings.NewReader(text), 0, "200 GET0 [] 0 true <nil>", nil},
			{"/307", strings.NewReader(text), 0, "307 ", nil},
		} {
			r := client.Request{Method: "POST", URL: o.URL + tt.path, BodyReader: tt.from, Length: tt.length, Follow: 1}
			got := ""
			resp, err := client.Do(th, &r, wait.Patience)
			if err == nil {
				var body []byte
				body, err = io.ReadAll(resp.Body)
				got = fmt.Sprint(resp.Status, " ", string(body))
			}
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%s, length %d: have %q, %v; want %q, %v", tt.path, tt.length, got, err, tt.want, tt.err)
			}
		}
	})
}

// TestBodyReaderIsRefused: a server that answers before it has read all, and closes: its answer
// counts, and the reader is not read to its end.
func TestBodyReaderIsRefused(t *testing.T) {
	addr, open := script(t, func(c net.Conn, r *bufio.Reader) {
		r.ReadString('\n')
		io.WriteString(c, "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
		c.(*net.TCPConn).CloseWrite()
		io.CopyN(io.Discard, r, 1<<20)
	})
	onThread(t, func(th *loop.Thread) {
		endless := &counted{}
		resp, err := client.Do(th, &client.Request{Method: "POST", URL: "http://" + addr, BodyReader: endless},
			wait.Patience)
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(resp.Body)
		if resp.Status != 413 || string(body) != "no" || err != nil {
			t.Error(resp.Status, string(body), err)
		}
	})
	wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
}

// counted is a reader without an end.
type counted struct{ n int64 }

func (r *counted) Read(p []byte) (int, error) {
	clear(p)
	r.n += int64(len(p))
	return len(p), nil
}

// TestBodyReaderIsRequest: a handler passes on the body of its request while that arrives. If the
// client leaves in between, or the server does, the other side ends, too.
func TestBodyReaderIsRequest(t *testing.T) {
	arrived, ended := make(chan string), make(chan error, 1)
	addr, open := script(t, func(c net.Conn, r *bufio.Reader) {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		first := make([]byte, 5)
		io.ReadFull(req.Body, first)
		arrived <- string(first)
		rest, err := io.ReadAll(req.Body)
		if err == nil {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(rest), rest)
		}
	})
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := server.Start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			resp, err := client.Do(req.Thread, &client.Request{
				Method: "PUT", URL: "http://" + addr, BodyReader: req.Body(),
			}, wait.Patience)
			if err != nil {
				ended <- err
				return 502
			}
			io.Copy(w, resp.Body)
			return resp.Status
		}})
		const head = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n"
		c := s.Dial()
		c.Send(head + "hello")
		if got := <-arrived; got != "hello" { // before the rest has been sent
			t.Error(got)
		}
		c.Send("world")
		if a := c.Answer("PUT"); a.StatusCode != 200 || a.Text != "world" {
			t.Error(a.Status, a.Text)
		}
		c = s.Dial()
		c.Send(head + "hello")
		<-arrived
		c.Close()
		if err := <-ended; err == nil {
			t.Error("no error")
		}
		wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
	}, modes.Direct, modes.OverTLS)
}
