package conn_test

import (
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/lwangotest"
)

// How many fields a head may have grows with its size.
func TestFieldsGrowWithHead(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		size, fields, status int
	}{
		{0, 256, 200},
		{0, 257, 431},
		{4 << 10, 256, 200},
		{64 << 10, 1024, 200},
		{64 << 10, 1025, 431},
	} {
		s := lwangotest.StartConfig(t,
			conn.Config{Limits: conn.Limits{MaxHeaderSize: conn.Size(row.size)},
				Handler: func(*conn.Request, *conn.Response) int { return 200 }})
		c := s.Dial()
		must.Get(io.WriteString(c, "GET / HTTP/1.0\r\n"+strings.Repeat("A: b\r\n", row.fields)+
			"\r\n"))(t)
		if a := c.Answer("GET"); a.StatusCode != row.status {
			t.Errorf("%d bytes, %d fields: %s", row.size, row.fields, a.Status)
		}
	}
}
