package servefiles_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestUnknownTimes: files of images that are made to be the same each time have all the same
// modification time. A new one in the place of the old is another one to clients that have the old,
// also if it is as long.
func TestUnknownTimes(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		for _, second := range []int64{0, 1} {
			for name, start := range map[string]func(root string) (s *server.Server, prefix string){
				"a folder": func(root string) (*server.Server, string) {
					return start(t, m, root, "/", nil), ""
				},
				"an fs.FS": func(root string) (*server.Server, string) {
					return startFS(t, m, os.DirFS(root), func(s *servefiles.Settings) { s.OpenFiles = 4 }), "/f"
				},
			} {
				root := t.TempDir()
				at := filepath.Join(root, "a.txt")
				put := func(path, text string) {
					must.Write(t, path, text)
					must.Do(t, os.Chtimes(path, time.Unix(second, 0), time.Unix(second, 0)))
				}
				put(at, "old")
				s, prefix := start(root)
				a := s.Request("GET "+prefix+"/a.txt", nil, "")
				tag := "If-None-Match: " + a.Header.Get("ETag")
				if a.Text != "old" || a.Header.Get("Last-Modified") != "" || a.Header.Get("ETag") == "" {
					t.Errorf("%s, second %d: %v", name, second, a.Header)
				}
				for range 2 { // the second time from where it is kept
					if a := s.Request("GET "+prefix+"/a.txt", []string{tag}, ""); a.StatusCode != 304 {
						t.Errorf("%s, second %d: %d", name, second, a.StatusCode)
					}
				}
				put(at+".new", "new")
				must.Do(t, os.Rename(at+".new", at))
				wait.Until(t, "the tag is the old one's", func() bool {
					return s.Request("GET "+prefix+"/a.txt", []string{tag}, "").Text == "new"
				})
				s.Stop(0)
			}
		}
	}, modes.Direct)
}
