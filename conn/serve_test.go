package conn_test

import (
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
)

func TestHello(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: hello,
			Headers: []conn.Field{{Name: "Server", Value: "lwango"}}})
		got :=
			s.Exchange(
				"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		for i, a := range answers(t, strings.NewReader(got), "GET", "GET") {
			if a.StatusCode != 200 || a.Text != "Hello, world!" ||
				a.Header.Get("Server") != "lwango" || a.Header.Get("Date") == "" {
				t.Errorf("answer %d: %v %q", i, a.Response, a.Text)
			}
		}
		if strings.Count(got, "Connection: close") != 1 {
			t.Errorf("answers\n%s", got)
		}
	})
}

func TestKeepAliveOneByOne(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: hello})
		c := s.Dial()
		for range 100 {
			must.Get(io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
			if a := answers(t, c, "GET")[0]; a.Text != "Hello, world!" {
				t.Fatalf("%v", a)
			}
		}
	})
}
