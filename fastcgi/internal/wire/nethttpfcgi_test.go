package wire_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/fcgi"
	"strings"
	"testing"

	"github.com/lwango/lwango/fastcgi/internal/wire"
	"github.com/lwango/lwango/internal/test/must"
)

// A oneConn is a listener with one connection.
type oneConn chan net.Conn

func (l oneConn) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, io.EOF
}
func (l oneConn) Close() error   { return nil }
func (l oneConn) Addr() net.Addr { return &net.UnixAddr{} }

// ask sends a request to net/http's own FastCGI child, and returns what came of its answer.
func ask(t *testing.T, head, stdin []byte, handler http.HandlerFunc) (stdout string,
	d wire.Decoder) {
	ours, theirs := net.Pipe()
	l := make(oneConn, 1)
	l <- theirs
	close(l)
	served := make(chan struct{})
	go func() {
		defer close(served)
		fcgi.Serve(l, handler)
	}()
	defer func() { ours.Close(); <-served }()
	go func() {
		ours.Write(head)
		ours.Write(stdin)
	}()
	var b strings.Builder
	buf := make([]byte, 1000)
	for !d.Done() {
		n, err := ours.Read(buf)
		if err != nil {
			t.Fatalf("after %q: %v", b.String(), err)
		}
		for in := buf[:n]; ; {
			typ, data, n, err := d.Next(in)
			if err != nil {
				t.Fatalf("after %q: %v", b.String(), err)
			}
			in = in[n:]
			if typ == wire.Stdout {
				b.Write(data)
				continue
			}
			if typ != wire.Stderr {
				break
			}
		}
	}
	return b.String(), d
}

func TestPeerUnderstands(t *testing.T) {
	params := map[string]string{
		"REQUEST_METHOD": "POST", "SERVER_PROTOCOL": "HTTP/1.1", "REQUEST_URI": "/a?b",
		"HTTP_HOST": "example.org",
		"EMPTY":     "", "L127": strings.Repeat("a", 127), "L128": strings.Repeat("b", 128),
		"L300":   strings.Repeat("c", 300),
		"L65000": strings.Repeat("d", 65000), "M65000": strings.Repeat("e", 65000),
		strings.Repeat("N", 200): "long name",
	}
	body := strings.Repeat("0123456789", 10000)
	params["CONTENT_LENGTH"] = fmt.Sprint(len(body))
	var h wire.Head
	h.Begin(nil, true)
	for name, value := range params {
		h.Add(name, value)
	}
	head := must.Get(h.Finish())(t)
	stdout, d := ask(t, head, stdin(body), func(w http.ResponseWriter, r *http.Request) {
		env := maps.Clone(fcgi.ProcessEnv(r)) // without those it has made a Request of
		for name, value := range env {
			if params[name] != value {
				t.Errorf("%.20s = %.20q of %d bytes", name, value, len(value))
			}
		}
		for _, name := range []string{"EMPTY", "L127", "L128", "L300", "L65000", "M65000",
			strings.Repeat("N", 200)} {
			if _, ok := env[name]; !ok {
				t.Errorf("%.20s is missing", name)
			}
		}
		got, err := io.ReadAll(r.Body)
		if r.Method != "POST" || r.Host != "example.org" || r.ContentLength != int64(len(body)) ||
			string(got) != body || err != nil {
			t.Errorf("%s, %s, %d, %d bytes, %v", r.Method, r.Host, r.ContentLength, len(got), err)
		}
		w.Header().Set("Content-Type", "text/plain")
		for range 100 {
			io.WriteString(w, body[:3000])
		}
	})
	_, answer, _ := strings.Cut(stdout, "\r\n\r\n")
	if answer != strings.Repeat(body[:3000], 100) {
		t.Errorf("%d bytes came back", len(answer))
	}
	if !d.Reusable() || d.Skipped() != 0 {
		t.Errorf("%+v", d)
	}
}

// The child's own END_REQUEST and UNKNOWN_TYPE.
func TestPeerRefuses(t *testing.T) {
	never := func(http.ResponseWriter, *http.Request) { t.Error("served") }
	_, d := ask(t, []byte(
		// BEGIN_REQUEST of a filter, on a connection to be kept
		rec(1, 1, 1, "\x00\x03\x01\x00\x00\x00\x00\x00", 0)+
			rec(1, 42, 0, "", 0)), nil, never)
	if d.End().Err() != wire.ErrUnknownRole || d.Reusable() {
		t.Errorf("%+v", d)
	}
}

// stdin is a body in records.
func stdin(body string) (b []byte) {
	for len(body) > 0 {
		n := min(len(body), wire.StdinContent)
		b = append(wire.AppendHeader(b, wire.Stdin, n), body[:n]...)
		body = body[n:]
	}
	return wire.AppendStdinEnd(b)
}
