package conn_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
)

// TestDiskOfSpoolFull: a disk without room is 503, as max_spool is, and the log names the disk.
func TestDiskOfSpoolFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("a file system of its own: ", err)
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	defer conn.SetLingerTime(time.Minute, time.Minute)()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Limits: conn.Limits{SpoolDir: dir},
			Handler: func(req *conn.Request, resp *conn.Response) int {
				if _, _, err := req.Layer().Spool(1000); err != nil {
					return resp.Error(500, err)
				}
				return 200
			}})
		for n, want := range map[int]int{20_000: 200, 200_000: 503} {
			c := s.Dial()
			raw := fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", n) +
				strings.Repeat("x", n)
			if a := c.Do("POST", raw); a.StatusCode != want {
				t.Errorf("%d bytes: %s, want %d", n, a.Status, want)
			}
			c.Close()
		}
		if !strings.Contains(s.Log.String(), "no room on the disk of spool_dir") ||
			!strings.Contains(s.Log.String(), "no space left on device") {
			t.Errorf("the log:\n%s", s.Log)
		}
	}, direct, several)
}
