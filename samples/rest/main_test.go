package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// TestProgram asks the whole program; the next one that is started has what this one was told.
func TestProgram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "items.db")
	ask := func(p *program.Server, method, path, body string) string {
		t.Helper()
		req := must.Get(http.NewRequestWithContext(t.Context(), method, "http://"+p.Address+path,
			strings.NewReader(body)))(t)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer secret")
		req.Close = true
		resp := must.Get(http.DefaultClient.Do(req))(t)
		return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(must.Body(t, resp)))
	}
	const tea = `{"id":1,"name":"tea","price":350,"version":1}`
	first := program.Start(t, "-db", file, "-token", "secret")
	if got := ask(first, "POST", "/items", `{"name": "tea", "price": 350}`); got != "201 "+tea {
		t.Error(got)
	}
	if code := first.End(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	second := program.Start(t, "-db", file)
	if got := ask(second, "GET", "/items", ""); got != `200 {"items":[`+tea+`]}` {
		t.Error(got)
	}
	if got := ask(second, "GET", "/items?after=1", ""); got != `200 {"items":[]}` {
		t.Error(got)
	}
}

// A file that cannot be opened ends the program at once.
func TestNoDatabase(t *testing.T) {
	program.Fails(t, []string{"-db", t.TempDir()}, 1, "unable to open database file")
}
