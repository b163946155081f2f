package clienthello_test

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/clienthello"
)

// hello returns the first flight of a client of crypto/tls.
func hello(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		_ = tls.Client(client, c).Handshake()
		client.Close()
	}()
	defer server.Close()
	_ = server.SetDeadline(time.Now().Add(20 * time.Second))
	head := make([]byte, 5)
	must.Get(io.ReadFull(server, head))(t)
	body := make([]byte, int(head[3])<<8|int(head[4]))
	must.Get(io.ReadFull(server, body))(t)
	return append(head, body...)
}

// records spreads a message in one record over records of n bytes.
func records(b []byte, n int) (all []byte) {
	for m := b[5:]; len(m) > 0; {
		k := min(n, len(m))
		all = append(append(all, 22, 3, 1, byte(k>>8), byte(k)), m[:k]...)
		m = m[k:]
	}
	return all
}

func configs() map[string]*tls.Config {
	return map[string]*tls.Config{
		"www.example.org": {ServerName: "WWW.Example.org", NextProtos: []string{"h2", "http/1.1"}},
		"a.example":       {ServerName: "a.example", MaxVersion: tls.VersionTLS12},
		"":                {InsecureSkipVerify: true},
	}
}

// TestServerName: the name is found when the last byte has come, and not before, however the
// message is spread over records.
func TestServerName(t *testing.T) {
	for want, c := range configs() {
		whole := hello(t, c)
		for _, n := range []int{1, 3, 100, 1 << 14} {
			b := records(whole, n)
			for i := range b {
				if name, done, err := clienthello.ServerName(b[:i]); name != "" || done || err != nil {
					t.Fatalf("%q in records of %d, %d of %d bytes: %q, %v, %v", want, n, i, len(b), name, done,
						err)
				}
			}
			b = append(b, "what follows"...)
			if name, done, err := clienthello.ServerName(b); name != want || !done || err != nil {
				t.Errorf("%q in records of %d: %q, %v, %v", want, n, name, done, err)
			}
		}
	}
}

func TestNotServerName(t *testing.T) {
	good := hello(t, &tls.Config{ServerName: "www.example.org"})
	change := func(at int, to byte) string {
		b := []byte(string(good))
		b[at] = to
		return string(b)
	}
	at := strings.Index(string(good), "www.example.org")
	for _, test := range []struct {
		name, text string
		want       error
	}{
		{"HTTP", "GET / HTTP/1.1\r\n", clienthello.ErrNoTLS},
		{"SSH", "SSH-2.0-x\r\n", clienthello.ErrNoTLS},
		{"an alert", "\x15\x03\x01\x00\x02\x02\x28", clienthello.ErrNoTLS},
		{"SSL 2", "\x80\x2e\x01\x03\x01", clienthello.ErrNoTLS},
		{"another version", "\x16\x02\x01", clienthello.ErrNoTLS},
		{"a ServerHello", change(5, 2), clienthello.ErrNoTLS},
		{"an empty record", "\x16\x03\x01\x00\x00", clienthello.ErrMalformed},
		{"a record too long", "\x16\x03\x01\x40\x01", clienthello.ErrMalformed},
		{"a message too long", "\x16\x03\x01\x40\x00\x01\x01\x00\x00", clienthello.ErrTooLarge},
		{"a message that does not end", "\x16\x03\x01\x40\x00\x01\x00\x40\x00" +
			strings.Repeat("x", clienthello.MaxSize), clienthello.ErrTooLarge},
		{"a session too long", change(5+4+34, 255), clienthello.ErrMalformed},
		{"a name cut by its length", change(at-1, 3), clienthello.ErrMalformed},
		{"a name too long", change(at-1, 200), clienthello.ErrMalformed},
		{"a name with a space", change(at+3, ' '), clienthello.ErrMalformed},
		{"a name with NUL", change(at+3, 0), clienthello.ErrMalformed},
		{"a name with a slash", change(at+3, '/'), clienthello.ErrMalformed},
	} {
		if name, done, err := clienthello.ServerName([]byte(test.text)); name != "" || done ||
			err != test.want {
			t.Errorf("%s: %q, %v, %v; want %v", test.name, name, done, err, test.want)
		}
	}
}

// FuzzServerName: an answer does not change with what follows, and agrees with that of crypto/tls.
func FuzzServerName(f *testing.F) {
	for _, c := range configs() {
		b := hello(f, c)
		f.Add(b, 7)
		f.Add(records(b, 11), 20)
	}
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		name, done, err := clienthello.ServerName(b)
		if err != nil && (done || name != "") {
			t.Fatalf("%q, %v with %v", name, done, err)
		}
		if cut = min(max(cut, 0), len(b)); done || err != nil {
			early, was, fault := clienthello.ServerName(b[:cut])
			if was && (early != name || !done) || fault != nil && fault != err {
				t.Fatalf("%d bytes: %q, %v, %v; all: %q, %v, %v", cut, early, was, fault, name, done, err)
			}
		}
		if !done {
			return
		}
		if asked, ok := byStandard(b); ok && !strings.EqualFold(asked, name) {
			t.Fatalf("crypto/tls reads %q, ServerName %q", asked, name)
		}
	})
}

// byStandard returns the name that crypto/tls reads; ok is false if it refuses the message.
func byStandard(b []byte) (name string, ok bool) {
	client, server := net.Pipe()
	go func() {
		_, _ = client.Write(b)
		client.Close()
	}()
	defer server.Close()
	_ = tls.Server(server, &tls.Config{
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name, ok = h.ServerName, true
			return nil, io.EOF
		},
	}).Handshake()
	return name, ok
}
