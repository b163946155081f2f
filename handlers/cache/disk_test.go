package cache_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestDisk: a long answer is sent from disk, whole and in parts, also after a restart.
func TestDisk(t *testing.T) {
	noise := modes.Noise(300 << 10)
	folder := t.TempDir()
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=1000", `ETag: "x"`, "Content-Type: application/x-noise")
		w.SetBody(noise)
		return 200
	}}
	begin := func() *cached {
		c := &cached{
			store: must.Get(cache.Open(cache.Options{Memory: 4 << 20, Folder: folder, Disk: 64 << 20}))(t)}
		c.Server = serveAll(t, must.Get(cache.New(c.store, cache.Settings{}, handlers.Env{}))(t)(o.serve))
		return c
	}
	s := begin()
	get(t, s, "/big")
	wait.Until(t, "the answer on disk", func() bool {
		return s.stats().DiskObjects == 1 && s.stats().Filling == 0
	})
	for round := range 2 {
		if round == 1 {
			s.store.Close()
			s = begin()
			wait.Until(t, "what is on disk", func() bool { return s.stats().DiskObjects == 1 })
		}
		half := s.Dial() // its sending half ends before the file is open
		half.Send("GET /big HTTP/1.1\r\nHost: test.example\r\n\r\n")
		half.CloseWrite()
		_ = half.SetReadDeadline(time.Now().Add(wait.Patience))
		if got := server.Rest(t, half.R); !strings.HasSuffix(got, string(noise)) {
			t.Errorf("round %d: a client that has ended its sending half gets %d bytes", round, len(got))
		}
		for _, tt := range []struct {
			line, field, want string
			body              []byte
		}{
			{"GET /big", "", "200 ", noise},
			{"HEAD /big", "", "200 ", nil},
			{"GET /big", "Range: bytes=100000-199999", "206 bytes 100000-199999/307200",
				noise[100000:200000]},
			{"GET /big", `If-None-Match: "x"`, "304 ", nil},
			{"GET /big", "Range: bytes=1-2,5-6", "200 ", noise},
		} {
			var f []string
			if tt.field != "" {
				f = append(f, tt.field)
			}
			a := s.Request(tt.line, f, "")
			got := fmt.Sprint(a.StatusCode, " ", a.Header.Get("Content-Range"))
			if got != tt.want || !bytes.Equal([]byte(a.Text), tt.body) ||
				a.StatusCode != 304 && a.Header.Get("Content-Type") != "application/x-noise" {
				t.Errorf("round %d, %s %s: %s, %d bytes", round, tt.line, tt.field, got, len(a.Text))
			}
		}
		if n := o.n.Load(); n != 1 {
			t.Errorf("round %d: %d requests to the handler", round, n)
		}
	}
	s.store.Close()
	if a, _ := get(t, s, "/big"); a.StatusCode != 200 {
		t.Errorf("behind the end of the store: %d", a.StatusCode)
	}
}
