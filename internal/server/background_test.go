package server_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/server"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestHealthChecksEnd: the checks of upstreams begin with the server, go on over a reload, whether
// it succeeds or not, and end with the configuration that asks for them. A file that is only read
// asks nothing.
func TestHealthChecksEnd(t *testing.T) {
	defer leak.Goroutines(t)()
	var checks atomic.Int32
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		checks.Add(1)
	}))
	defer o.Close()
	file := filepath.Join(t.TempDir(), "lwango.conf")
	write := func(more string) {
		text := "[[listener]]\naddress = \"127.0.0.1:0\"\n" +
			route("prefix = \"/\"\nmodule = \"proxy\"\naddress = \""+o.URL+"\"\n"+more)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := source()
	s.File = file
	write("health = { path = \"/up\", interval = \"100ms\" }\n")
	config, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond)
	if checks.Load() != 0 {
		t.Error("checked before the start")
	}
	srv, err := server.Start(s, config)
	if err != nil {
		t.Fatal(err)
	}
	goOn := func() {
		t.Helper()
		before := checks.Load()
		wait.Until(t, "checks", func() bool { return checks.Load() > before+1 })
	}
	goOn()
	for range 3 {
		if err := srv.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	goOn()
	write("health = { path = \"up\" }\n")
	if srv.Reload() == nil {
		t.Error("a wrong path was accepted")
	}
	goOn()
	write("")
	if err := srv.Reload(); err != nil {
		t.Fatal(err)
	}
	before := checks.Load()
	time.Sleep(300 * time.Millisecond)
	if checks.Load() > before+1 { // one may have been on its way
		t.Error("checked without being asked to")
	}
	write("health = { path = \"/up\", interval = \"1h\" }\n")
	if err := srv.Reload(); err != nil {
		t.Fatal(err)
	}
	srv.Stop()
	if err := srv.Wait(); err != nil {
		t.Error(err)
	}
}
