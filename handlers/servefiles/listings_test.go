package servefiles_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// Clients that do not read their listings hold the bytes of one for each folder and order, and
// nobody's place. When large listings have taken what they may, small ones still find room.
func TestSlowReadersOfListings(t *testing.T) {
	const room = 9 << 20
	servefiles.SetListings(t, time.Nanosecond, room)
	root := t.TempDir()
	long := filepath.Join(root, strings.Repeat("'", 240))
	must.Do(t, os.WriteFile(long, nil, 0o644))
	for i := range 3000 { // a page of 6 MB, which no socket takes
		must.Do(t, os.Link(long, fmt.Sprint(long, i)))
	}
	must.Do(t, os.Mkdir(filepath.Join(root, "small"), 0o755))
	h, err := build(t, handlers.Env{}, func(s *servefiles.Settings) { s.Path, s.Listing = root, true })
	must.Do(t, err)
	router, err := handlers.NewRouter([]handlers.Site{{Routes: []handlers.Route{
		{Prefix: "/", Handler: h}}}})
	must.Do(t, err)
	s := server.Start(t, modes.Direct, conn.Config{Handler: router.Serve,
		Limits: conn.Limits{WriteTimeout: time.Hour, MinRate: -1}})
	defer s.Stop(0)
	var clients []*server.Client
	begin := func(by string) (status string) {
		c := s.DialSmall()
		clients = append(clients, c)
		c.Send("GET /?sort=" + by + " HTTP/1.1\r\nHost: a\r\n\r\n")
		line, err := c.R.Peek(len("HTTP/1.1 200"))
		must.Do(t, err)
		return string(line[len("HTTP/1.1 "):])
	}
	for i := range 20 {
		if status := begin("name"); status != "200" {
			t.Fatalf("slow client %d: %s", i, status)
		}
	}
	refused := ""
	for _, by := range []string{"-name", "size", "-size", "date", "-date"} {
		if status := begin(by); status != "200" {
			refused = by
		}
	}
	if refused == "" {
		t.Errorf("six listings of 900 kB found room, each in an eighth of what was left of %d", room)
	}
	if status := begin("name"); status != "200" {
		t.Errorf("what others are being sent: %s", status)
	}
	if got := s.Request("GET /?sort="+refused, nil, ""); got.StatusCode != 503 ||
		got.Header.Get("Retry-After") == "" {
		t.Errorf("without room: %s", got.Status)
	}
	for line, want := range map[string]int{"GET /small/": 200, "GET /none/": 404, "GET /x/": 404,
		"HEAD /": 200} {
		if got := s.Request(line, nil, ""); got.StatusCode != want {
			t.Errorf("%s: %d", line, got.StatusCode)
		}
	}
	must.Do(t, os.WriteFile(filepath.Join(root, "small/new"), nil, 0o644))
	wait.Until(t, "the new file is seen", func() bool {
		return strings.Contains(s.Request("GET /small/", nil, "").Text, "new")
	})
	for _, c := range clients {
		c.Close()
	}
	wait.Until(t, "there is room again", func() bool {
		return s.Request("GET /?sort="+refused, nil, "").StatusCode == 200
	})
}

// A crowd that asks for a folder while it is read, or soon after, lets it be read once.
func TestListingIsShared(t *testing.T) {
	servefiles.SetListings(t, time.Hour, 1<<20)
	fsys := newSlowFS(".none", fstest.MapFS{"a/b": {}})
	set := servefiles.Defaults
	set.Listing = true
	list, err := servefiles.FS(fsys, set, handlers.Env{})
	must.Do(t, err)
	s := module.Start(t, modes.Direct, "/", list)
	var crowd []*server.Client
	for range 3 {
		c := s.Dial()
		c.Send("GET /a/ HTTP/1.1\r\nHost: a\r\n\r\n")
		crowd = append(crowd, c)
	}
	<-fsys.waiting // the first one
	s.Settle()
	close(fsys.free)
	for _, c := range crowd {
		if got := c.Answer("GET"); got.StatusCode != 200 || !strings.Contains(got.Text, "./b") {
			t.Errorf("%s:\n%s", got.Status, got.Text)
		}
	}
	got := s.Request("GET /a/", []string{"Accept: application/json"}, "")
	if got.StatusCode != 200 || !strings.Contains(got.Text, `"./b"`) {
		t.Errorf("%s:\n%s", got.Status, got.Text)
	}
	if n := fsys.read.Load(); n != 1 {
		t.Errorf("the folder was read %d times", n)
	}
}
