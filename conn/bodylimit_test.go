package conn_test

import (
	"io"
	"testing"

	"github.com/lwango/lwango/conn"
)

// TestNegativeLimit: what is left of a budget may be less than nothing, and then nothing may come.
func TestNegativeLimit(t *testing.T) {
	limits := map[string]func(b *conn.Body){
		"/set":     func(b *conn.Body) { b.SetLimit(-5) },
		"/replace": func(b *conn.Body) { b.ReplaceLimit(-5) },
	}
	for _, most := range []conn.Size{10, -1} {
		s := start(t, plain, conn.Config{Limits: conn.Limits{MaxBodySize: most},
			Handler: func(req *conn.Request, resp *conn.Response) int {
				limits[req.Path()](req.Body())
				if _, err := io.Copy(resp, req.Body()); err != nil && err != conn.ErrBodyTooLarge {
					t.Error(err)
				}
				return 200
			}})
		for path := range limits {
			for rest, want := range map[string]int{
				"Content-Length: 1\r\n\r\nx":                            413,
				"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n": 413,
				"Content-Length: 0\r\n\r\n":                             200,
			} {
				a := s.Dial().Do("POST", "POST "+path+" HTTP/1.1\r\nHost: a\r\n"+rest)
				if a.StatusCode != want {
					t.Errorf("%s, limit %d, %q: %d", path, most, rest, a.StatusCode)
				}
			}
		}
	}
}
