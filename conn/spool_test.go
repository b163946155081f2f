package conn_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
)

// TestSpool: a body of any framing and size is there as a whole, twice, and leaves no file and no descriptor.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			body, n, err := req.Spool(1000)
			if err != nil {
				t.Error(err)
				return 500
			}
			first, err1 := io.ReadAll(body)
			_, err2 := body.Seek(0, io.SeekStart)
			second, err3 := io.ReadAll(body)
			_, inFile := body.(*os.File)
			fmt.Fprint(resp, n, bytes.Equal(first, second), inFile, err1, err2, err3)
			return 200
		}})
		for _, row := range []struct {
			size   int
			inFile bool
		}{{0, false}, {1, false}, {999, false}, {1000, false}, {1001, true}, {200_000, true}} {
			want := fmt.Sprint(int64(row.size), true, row.inFile, nil, nil, nil)
			text := strings.Repeat("x", row.size)
			chunks := ""
			if row.size > 0 {
				chunks = fmt.Sprintf("%x\r\n%s\r\n", row.size, text)
			}
			for _, raw := range []string{
				fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", row.size, text),
				"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + "0\r\n\r\n",
			} {
				if got := answers(t, strings.NewReader(s.exchange(raw)), "POST")[0]; got.text != want {
					t.Errorf("%d bytes: %q, want %q", row.size, got.text, want)
				}
			}
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
}
