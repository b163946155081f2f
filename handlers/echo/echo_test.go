package echo_test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/echo"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

func TestEcho(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := module.Start(t, m, "/echo", echo.Serve)
		for _, c := range []struct {
			line, field, body string
			want              string
			wantType          string
			length            int64
			why               string
		}{
			{"POST /echo", "Content-Length: 5", "hello", "hello", "application/octet-stream", 5,
				"no type"},
			{"PUT /echo/x", "Content-Length: 2\r\nContent-Type: application/json", "{}", "{}",
				"application/json", 2, "the type it came in"},
			{"PATCH /echo", "Content-Length: 1", "x", "x", "application/octet-stream", 1, ""},
			{"DELETE /echo", "Content-Length: 1", "x", "x", "application/octet-stream", 1,
				"DELETE may have a body"},
			{"POST /echo", "Content-Length: 0", "", "", "application/octet-stream", 0,
				"an empty body"},
			{"POST /echo", "X-Nothing: 1", "", "", "application/octet-stream", 0, "no body at all"},
			{"POST /echo", "Transfer-Encoding: chunked", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
				"abcde", "application/octet-stream", -2, "chunked"},
			{"POST /echo", "Transfer-Encoding: chunked", "0\r\n\r\n", "",
				"application/octet-stream", 0, "chunked, empty"},
			{"POST /echo", "Content-Length: 5000", strings.Repeat("x", 5000),
				strings.Repeat("x", 5000), "application/octet-stream", 5000,
				"more than the first piece"},
		} {
			got := s.Request(c.line, []string{c.field}, c.body)
			if got.StatusCode != 200 || got.Text != c.want ||
				got.Header.Get("Content-Type") != c.wantType ||
				c.length != -2 && got.ContentLength != c.length {
				t.Errorf("%s %s: got %d, %d bytes (Content-Length %d), %v (%s)", c.line, c.field,
					got.StatusCode, len(got.Text), got.ContentLength, got.Header, c.why)
			}
		}
		if got := s.Request("OPTIONS /echo", nil, ""); got.StatusCode != 204 ||
			got.Header.Get("Allow") != "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" {
			t.Errorf("OPTIONS: %+v", got)
		}
		if got := s.Request("POST /echo", []string{"Transfer-Encoding: chunked"},
			"zz\r\n"); got.StatusCode != 400 {
			t.Errorf("bad chunk: %+v", got)
		}
	}, modes.Plain, modes.Direct)
}

// A body far longer than all buffers together passes through while it is being sent, in both
// framings.
func TestStreaming(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := module.Start(t, m, "/", echo.Serve)
		const pieces, piece = 300, 64 << 10
		chunk := strings.Repeat("0123456789abcdef", piece/16)
		for _, chunked := range []bool{false, true} {
			c := s.Dial()
			sent := make(chan error, 1)
			go func() {
				w := bufio.NewWriterSize(c, piece)
				if chunked {
					fmt.Fprint(w,
						"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
				} else {
					fmt.Fprintf(w, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n",
						pieces*piece)
				}
				for range pieces {
					if chunked {
						fmt.Fprintf(w, "%x\r\n%s\r\n", piece, chunk)
					} else {
						w.WriteString(chunk)
					}
				}
				if chunked {
					w.WriteString("0\r\n\r\n")
				}
				sent <- w.Flush()
			}()
			got := c.Answer("POST")
			must.Do(t, <-sent)
			if got.StatusCode != 200 || got.Text != strings.Repeat(chunk, pieces) {
				t.Errorf("chunked %v: status %d, %d bytes", chunked, got.StatusCode, len(got.Text))
			}
		}
	}, modes.Plain, modes.Direct)
}

func TestContinue(t *testing.T) {
	s := module.Start(t, modes.Plain, "/", echo.Serve)
	c := s.Dial()
	fmt.Fprint(c,
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\nExpect: 100-continue\r\n\r\n")
	const want = "HTTP/1.1 100 Continue\r\n\r\n"
	interim := make([]byte, len(want))
	if _, err := io.ReadFull(c, interim); err != nil || string(interim) != want {
		t.Fatalf("got %q, %v", interim, err)
	}
	body := strings.Repeat("y", 9000)
	io.WriteString(c, body)
	if got := c.Answer("POST"); got.StatusCode != 200 || got.Text != body {
		t.Errorf("status %d, %d bytes", got.StatusCode, len(got.Text))
	}
}

func TestDescription(t *testing.T) {
	s := module.Start(t, modes.Plain, "/echo", echo.Serve)
	got := s.Request("GET /echo//a/../b%20c?x=%31", []string{"X-One: 1", "x-one: 2"}, "")
	lines := strings.Split(got.Text, "\n")
	for i, want := range []string{
		"GET /echo//a/../b%20c?x=%31 HTTP/1.1",
		"",
		"Host       test.example",
		"Path       /echo/b c",
		"Prefix     /echo",
		"SubPath    /b c",
		"RawQuery   x=%31",
		"RemoteAddr 127.0.0.1:",
		"LocalAddr  " + s.Addr,
		"",
		"Host: test.example",
		"Connection: close",
		"X-One: 1",
		"x-one: 2",
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) || want == "" && lines[i] != "" {
			t.Fatalf("line %d: want %q in:\n%s", i+1, want, got.Text)
		}
	}
	if got.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("type %q", got.Header.Get("Content-Type"))
	}
	if head := s.Request("HEAD /echo", nil, ""); head.Text != "" || head.ContentLength <= 0 {
		t.Errorf("HEAD: %+v", head)
	}
}

func TestRegister(t *testing.T) {
	var r handlers.Registry
	echo.Register(&r)
	if _, ok := r.Handler("echo"); !ok {
		t.Error("not registered")
	}
}
