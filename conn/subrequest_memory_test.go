package conn_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
)

// TestSubrequestInMemory: the asker gets the whole answer of a handler, however that gives it, and
// a body that is longer than wanted is an error.
func TestSubrequestInMemory(t *testing.T) {
	const most = 100 << 10
	long := strings.Repeat("x", most)
	file := filepath.Join(t.TempDir(), "f")
	must.Write(t, file, "of a file")
	var closed bool
	ways := map[string]struct {
		h    conn.Handler
		want string // status, header field and body, or the error
	}{
		"nothing":  {func(*conn.Request, *conn.Response) int { return 0 }, "200  "},
		"an error": {func(*conn.Request, *conn.Response) int { return 502 }, "502  "},
		"written": {func(r *conn.Request, w *conn.Response) int {
			w.Header().Set("X-A", "b")
			fmt.Fprintf(w, "%s?%s %s", r.Path(), r.RawQuery(), r.Method())
			return 403
		}, "403 b /asked?q=1 GET"},
		"set": {func(_ *conn.Request, w *conn.Response) int { w.SetBody([]byte("set")); return 302 },
			"302  set"},
		"no 204": {func(_ *conn.Request, w *conn.Response) int { w.SetBody([]byte("set")); return 204 },
			"204  "},
		"streamed": {func(_ *conn.Request, w *conn.Response) int {
			w.SetStatus(401)
			w.Write([]byte("one "))
			w.Flush()
			w.Write([]byte("two"))
			return 0
		}, "401  one two"},
		"most": {func(_ *conn.Request, w *conn.Response) int { w.WriteString(long); return 0 },
			"200  " + long},
		"more": {func(_ *conn.Request, w *conn.Response) int {
			w.WriteString(long)
			w.WriteString("x")
			return 401
		}, "error"},
		"more at once": {func(_ *conn.Request, w *conn.Response) int {
			w.SetBody([]byte(long + "x"))
			return 401
		}, "error"},
		"a reader": {func(r *conn.Request, w *conn.Response) int {
			r.Defer(func() { closed = true })
			w.SetBodyReader(readerFunc(func(p []byte) (int, error) {
				if closed {
					return 0, errors.New("closed")
				}
				return strings.NewReader("of a reader").Read(p)
			}), int64(len("of a reader")))
			return 401
		}, "401  of a reader"},
		"a file": {func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyFile(must.Get(os.Open(file))(t), 3, 6)
			return 401
		}, "401  a file"},
		"a short file": {func(_ *conn.Request, w *conn.Response) int {
			w.SetBodyFile(must.Get(os.Open(file))(t), 3, 60)
			return 401
		}, "error"},
		"aborted": {func(_ *conn.Request, w *conn.Response) int { w.Abort(); return 401 }, "error"},
		"too short": {func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("Content-Length", "10")
			w.WriteString("x")
			w.Flush()
			return 401
		}, "error"},
		"a bad field": {func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("X", "\n")
			return 302
		}, "500  "},
	}
	s := start(t, direct, conn.Config{Handler: func(r *conn.Request, w *conn.Response) int {
		closed = false
		status, header, body, err := r.Layer().SubrequestInMemory(
			"/asked", "q=1", most, ways[r.Path()[1:]].h)
		if err != nil {
			w.WriteString("error")
		} else {
			fmt.Fprintf(w, "%d %s %s", status, header.Get("X-A"), body)
		}
		return 200
	}})
	for name, way := range ways {
		a := s.Request("GET /"+strings.ReplaceAll(name, " ", "%20"), nil, "")
		if a.StatusCode != 200 || a.Text != way.want {
			t.Errorf("%s: %d %.60q, want %.60q", name, a.StatusCode, a.Text, way.want)
		}
	}
}
