package client_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// TestEnds: the end of a connection is the end of an answer only where nothing else says it; and
// over TLS it is none without close_notify, which anybody on the way could have brought about (RFC
// 9112 section 9.8).
func TestEnds(t *testing.T) {
	ca := certs.New(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.Issue(time.Hour, "127.0.0.1")},
		NextProtos: []string{"h2", "http/1.1"}}
	one := func(c net.Conn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\nhello")
		}
	}
	two := func(c net.Conn, r *bufio.Reader) {
		_, _ = r.Discard(len(http2.Preface))
		_, _ = c.Write(http2.AppendHeader(nil, http2.SettingsFrame, 0, 0, 0))
		block := append([]byte{0x88, 0, 14}, "content-length\x0210"...)
		out := append(http2.AppendHeader(nil, http2.Headers, http2.EndHeaders, 1, len(block)), block...)
		out = append(http2.AppendHeader(out, http2.Data, 0, 1, 5), "hello"...)
		for {
			var head [http2.FrameHeaderLen]byte
			if _, err := io.ReadFull(r, head[:]); err != nil {
				return
			}
			h := http2.ParseHeader(head[:])
			_, _ = r.Discard(int(h.Length))
			if h.Type == http2.Headers {
				_, _ = c.Write(out)
				_ = c.(interface{ CloseWrite() error }).CloseWrite()
			}
		}
	}
	over := func(notify bool, f func(net.Conn, *bufio.Reader)) func(net.Conn, *bufio.Reader) {
		return func(c net.Conn, _ *bufio.Reader) {
			s := tls.Server(c, config)
			if notify {
				f(s, bufio.NewReader(s))
				s.Close()
			} else {
				f(fin{s, c}, bufio.NewReader(s))
			}
		}
	}
	for name, tt := range map[string]struct {
		f      func(net.Conn, *bufio.Reader)
		scheme string
		http2  bool
		cut    bool
	}{
		"1.0":                       {one, "http", false, false},
		"1.0, TLS, close_notify":    {over(true, one), "https", false, false},
		"1.0, TLS, FIN":             {over(false, one), "https", false, true},
		"HTTP/2":                    {two, "http", true, true},
		"HTTP/2, TLS, close_notify": {over(true, two), "https", true, true},
		"HTTP/2, TLS, FIN":          {over(false, two), "https", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			address, _ := script(t, tt.f)
			c := &client.Client{HTTP2: tt.http2, TLS: &tls.Config{RootCAs: ca.Pool}}
			onThread(t, func(th *loop.Thread) {
				got, err := get(th, c, tt.scheme+"://"+address, wait.Patience)
				if got != "200 hello" || errors.Is(err, client.ErrCut) != tt.cut || (err != nil) != tt.cut {
					t.Errorf("%q %v", got, err)
				}
			})
		})
	}
}

// fin is a connection of TLS whose sending half ends with a FIN alone.
type fin struct {
	*tls.Conn
	below net.Conn
}

func (f fin) CloseWrite() error { return f.below.(*net.TCPConn).CloseWrite() }
