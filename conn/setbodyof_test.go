package conn_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
)

type closes struct{ n *atomic.Int32 }

func (c closes) Close() error {
	c.n.Add(1)
	return nil
}

// TestSetBodyOf: what a body is part of is told once that it is used no more, whatever becomes of
// the answer.
func TestSetBodyOf(t *testing.T) {
	for name, test := range map[string]struct {
		method string
		after  func(w *conn.Response)
		want   string
	}{
		"sent":     {"GET", func(*conn.Response) {}, "200 body"},
		"HEAD":     {"HEAD", func(*conn.Response) {}, "200 "},
		"replaced": {"GET", func(w *conn.Response) { w.SetBody([]byte("other")) }, "200 other"},
		"cleared":  {"GET", func(w *conn.Response) { w.Layer().Clear() }, "200 "},
		"hook": {"GET", func(w *conn.Response) {
			w.Layer().SetEncoded("gzip", []byte("coded"))
			w.Layer().BeforeHead(func(_ *conn.Request, w *conn.Response, _ int) {
				w.Layer().UseEncoded("gzip")
			})
		}, "200 coded"},
	} {
		t.Run(name, func(t *testing.T) {
			var closed atomic.Int32
			s := server.Start(t, modes.Direct,
				conn.Config{Handler: func(_ *conn.Request, w *conn.Response) int {
					w.Layer().SetBodyOf([]byte("body"), closes{&closed})
					test.after(w)
					return 200
				}})
			a := s.Request(test.method+" /", nil, "")
			s.Settle()
			if got := strings.TrimSpace(a.Status[:4]) + " " + a.Text; got != test.want ||
				closed.Load() != 1 {
				t.Errorf("%q, closed %d times", got, closed.Load())
			}
		})
	}
}
