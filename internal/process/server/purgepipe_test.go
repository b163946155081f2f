package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// page asks for a page on a connection of its own, if c is nil.
func (u *upgraded) page(c *upgradeClient, method string) *http.Response {
	u.t.Helper()
	if c == nil {
		c = must.Get(u.dial("tcp"))(u.t)
		defer c.close()
	}
	_, err := io.WriteString(c,
		method+" /page HTTP/1.1\r\nHost: cached.test\r\nContent-Length: 0\r\n\r\n")
	must.Do(u.t, err)
	resp := must.Get(http.ReadResponse(c.r, &http.Request{Method: method}))(u.t)
	text := must.Get(io.ReadAll(resp.Body))(u.t)
	resp.Body = io.NopCloser(strings.NewReader(string(text)))
	return resp
}

// TestUpgradeCached: a process that was replaced leaves out what is for its cache, and has the new
// one drop what its own clients change. It ends with its last connection, though it has asked an
// upstream of HTTP/2.
func TestUpgradeCached(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	o := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=600")
		w.Header().Set("Cache-Tag", "secret")
		w.Header().Set("Surrogate-Key", "secret")
		w.Header().Set("X-Accel-Expires", "500")
		fmt.Fprint(w, r.Method, asked.Add(1))
	}))
	o.Config.Protocols = new(http.Protocols)
	o.Config.Protocols.SetUnencryptedHTTP2(true)
	o.Start()
	t.Cleanup(o.Close)
	u := startUpgraded(t,
		"threads = 1\ndrain = \"10m\"\n[[site]]\n[[site.route]]\nprefix = \"/page\"\n"+
			"module = \"proxy\"\naddress = \"h2c://"+o.Listener.Addr().String()+
			"\"\nidle_timeout = \"10m\"\ncache = true\n")
	kept, idle := must.Get(u.dial("tcp"))(t), [2]*upgradeClient{}
	for i := range idle { // each has one request behind the upgrade
		idle[i] = must.Get(u.dial("tcp"))(t)
		u.page(idle[i], "GET")
	}
	u.page(kept, "GET")
	if out, code := u.command(); code != 0 {
		t.Fatal(out, code)
	}
	status := func(r *http.Response) string {
		return strings.Join(r.Header.Values("Cache-Status"), ", ")
	}
	if got := status(u.page(nil, "GET")); !strings.Contains(got, "uri-miss") {
		t.Fatal("the new process: ", got)
	}
	if got := status(u.page(nil, "GET")); !strings.Contains(got, "; hit") {
		t.Fatal("the new process: ", got)
	}
	old := u.page(idle[0], "GET")
	for _, name := range []string{"Cache-Tag", "Surrogate-Key", "X-Accel-Expires"} {
		if got := old.Header.Get(name); got != "" {
			t.Errorf("the old process: %s: %s", name, got)
		}
	}
	if !old.Close || status(old) == "" {
		t.Errorf("the old process: %v", old.Header)
	}
	changed := u.page(idle[1], "POST")
	if got := changed.Header.Get("Cache-Tag"); got != "" || changed.StatusCode != 200 {
		t.Errorf("the old process, POST: %d, Cache-Tag: %s", changed.StatusCode, got)
	}
	wait.Until(t, "the end of what is kept", func() bool {
		return !strings.Contains(status(u.page(nil, "GET")), "; hit")
	})
	for _, c := range []net.Conn{kept, idle[0], idle[1]} {
		c.Close()
	}
	began := time.Now()
	select {
	case <-u.gone:
		t.Log("gone after ", time.Since(began))
	case <-time.After(wait.Patience):
		t.Error("the old process stays")
	}
}

// TestUpgradeCachedTwice: what clients of the first process change, the third one drops, also when
// the second one has ended.
func TestUpgradeCachedTwice(t *testing.T) {
	t.Parallel()
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=600")
	}))
	t.Cleanup(o.Close)
	u := startUpgraded(t,
		"threads = 1\ndrain = \"10m\"\n[[site]]\n[[site.route]]\nprefix = \"/page\"\n"+
			"module = \"proxy\"\naddress = \"http://"+o.Listener.Addr().String()+"\"\ncache = true\n")
	keep := func() *upgradeClient { // a client has one request behind the upgrade
		c := must.Get(u.dial("tcp"))(t)
		t.Cleanup(c.close)
		u.page(c, "GET")
		return c
	}
	upgrade := func() {
		t.Helper()
		if out, code := u.command(); code != 0 {
			t.Fatal(out, code)
		}
	}
	first := []*upgradeClient{keep(), keep()}
	upgrade()
	ofSecond, second := keep(), u.mustPID()
	upgrade()
	status := func() string { return u.page(nil, "GET").Header.Get("Cache-Status") }
	change := func(by *upgradeClient) {
		t.Helper()
		status()
		if got := status(); !strings.Contains(got, "; hit") {
			t.Fatal("the new process: ", got)
		}
		u.page(by, "POST")
		wait.Until(t, "the end of what is kept", func() bool {
			return !strings.Contains(status(), "; hit")
		})
	}
	change(first[0])
	ofSecond.close()
	wait.Until(t, "the end of the second process", func() bool {
		return syscall.Kill(second, 0) != nil || zombie(second)
	})
	change(first[1])
}

// TestPurgeReceiverEnds: when a process ends, what it has read of the purges of those before it was
// done, and the rest is there for the next process, from the begin of a line on.
func TestPurgeReceiverEnds(t *testing.T) {
	t.Parallel()
	store := must.Get(cache.Open(cache.Options{Memory: 1 << 20}))(t)
	t.Cleanup(store.Close)
	var mu sync.Mutex
	var done strings.Builder
	store.Share(func(text []byte, _ bool) {
		mu.Lock()
		defer mu.Unlock()
		done.WriteString(string(text) + "\n")
	})
	r, w := must.Pipe(t)
	ended, _ := must.Pipe(t) // of a process that is there no more
	ended.Close()
	f := server.ReceivePurges(store, logtext.Quiet, ended, r)
	const all = `{"tags":["a"]}` + "\n" + `{"tags":["b"]}` + "\n" + `{"tags":["c"]}` + "\n"
	must.Get(w.WriteString(all[:20]))(t)
	wait.Until(t, "the first one", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return done.Len() > 0
	})
	must.Get(w.WriteString(all[20:]))(t)
	f.End()
	w.Close()
	_ = r.SetReadDeadline(time.Time{})
	rest := must.Get(io.ReadAll(r))(t)
	mu.Lock()
	defer mu.Unlock()
	if got := done.String() + string(rest); got != all || strings.Count(done.String(), "\n") < 2 {
		t.Errorf("done: %q, left: %q", done.String(), rest)
	}
}
