package system_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/embedded"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
)

// TestReload: a reload from code puts another handler, TLS and other addresses into force, and all
// or nothing.
func TestReload(t *testing.T) {
	own := must.Listen(t)
	s := lwango.Server{Handler: embedded.Says("old"), Listeners: []lwango.Listener{{Socket: own}}}
	r, stop := embedded.Start(t, s)
	at := own.Addr().String()

	keep := must.Dial(t, "tcp", at)
	answers := bufio.NewReader(keep)
	ask := func() string {
		must.Get(io.WriteString(keep, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
		resp := must.Get(http.ReadResponse(answers, nil))(t)
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	if got := ask(); got != "old" {
		t.Errorf("got %q", got)
	}

	s.Handler = embedded.Says("new")
	s.Listeners = append(s.Listeners, lwango.Listener{Addr: "127.0.0.1:0", TLS: modes.ServerTLS()})
	must.Do(t, r.Reload(s))
	if got := ask(); got != "new" {
		t.Errorf("on the same connection: %q", got)
	}
	if got := embedded.GetAt(t, "https://x", r.Addrs()[1]); got != "new" {
		t.Errorf("at the new address: %q", got)
	}

	wrong := s
	wrong.Handler = embedded.Says("never")
	unused := must.Listen(t)
	wrong.Listeners = append(wrong.Listeners[:2:2], lwango.Listener{Socket: unused},
		lwango.Listener{Addr: at})
	if err := r.Reload(wrong); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("an address that is taken: %v", err)
	}
	if _, err := unused.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a listener of a reload that was refused: %v, want it closed", err)
	}
	if got := ask(); got != "new" {
		t.Errorf("after a reload that was refused: %q", got)
	}

	s.Listeners = s.Listeners[1:]
	must.Do(t, r.Reload(s))
	if c, err := net.Dial("tcp", at); err == nil {
		c.Close()
		t.Error("the address that is gone is still listened to")
	}
	stop()
	if err := r.Reload(s); !errors.Is(err, lwango.ErrStopped) {
		t.Errorf("after the end: %v", err)
	}
}

// TestReloadOfChosenPorts: a port that the kernel has chosen stays, whatever comes and goes beside
// it, and whether the program asks for 0 again or for what it has got.
func TestReloadOfChosenPorts(t *testing.T) {
	dir := must.Get(os.MkdirTemp("", "embed"))(t)
	defer os.RemoveAll(dir)
	const chosen = "127.0.0.1:0"
	beside := lwango.Listener{Addr: "unix:" + dir + "/s"}
	s := lwango.Server{Handler: embedded.Says("x"),
		Listeners: []lwango.Listener{beside, {Addr: chosen},
			{Addr: chosen}}}
	r, _ := embedded.Start(t, s)
	first, second := r.Addrs()[1], r.Addrs()[2]
	for _, step := range []struct{ ask, want []string }{
		{[]string{chosen, chosen}, []string{first, second}},
		{[]string{chosen, "unix", chosen}, []string{first, "unix:" + dir + "/s", second}},
		{[]string{second, chosen}, []string{second, first}},
		{[]string{first, second}, []string{first, second}},
		{[]string{second}, []string{second}},
		{[]string{chosen}, []string{second}},
		{[]string{strings.Replace(second, "127.0.0.1", "localhost", 1)}, []string{second}},
	} {
		s.Listeners = nil
		for _, a := range step.ask {
			if a == "unix" {
				s.Listeners = append(s.Listeners, beside)
			} else {
				s.Listeners = append(s.Listeners, lwango.Listener{Addr: a})
			}
		}
		if err := r.Reload(s); err != nil {
			t.Fatalf("%q: %v", step.ask, err)
		}
		if got := r.Addrs(); !slices.Equal(got, step.want) {
			t.Errorf("%q: got %q, want %q", step.ask, got, step.want)
		}
		for _, at := range step.want {
			if got := embedded.GetAt(t, "http://x/", at); got != "x" {
				t.Errorf("%s: %q", at, got)
			}
		}
	}
	if c, err := net.Dial("tcp", first); err == nil {
		c.Close()
		t.Error("the address that is gone is still listened to")
	}
	s.Listeners = []lwango.Listener{{Addr: second}, {Addr: second}}
	if err := r.Reload(s); err == nil || !strings.Contains(err.Error(), "listened to twice") {
		t.Errorf("got %v", err)
	}
}

// settingsOfText are the settings of the module of TestRegisterModule.
type settingsOfText struct {
	Text string `toml:"text"`
}

// registerText is for one call in a process, however often the test runs in it.
var registerText = sync.OnceFunc(func() {
	lwango.RegisterModule("test_text", settingsOfText{Text: "default"},
		func(s settingsOfText, env lwango.Env) (lwango.Handler, error) {
			return embedded.Says(env.Prefix + " " + s.Text), nil
		})
})

// TestRegisterModule: a module of the program works in the file of a server that it embeds, beside
// its handlers, and a reload reads the file again.
func TestRegisterModule(t *testing.T) {
	registerText()
	file := filepath.Join(t.TempDir(), "x.conf")
	write := func(text string) {
		t.Helper()
		must.Write(t, file, "[[site]]\n"+text)
	}
	route := "[[site.route]]\nprefix = \"/m\"\nmodule = \"test_text\"\n"
	write(route)
	s := lwango.Server{Addr: "127.0.0.1:0", File: file, Handler: embedded.Says("code")}
	r, _ := embedded.Start(t, s)
	url := "http://" + r.Addrs()[0]
	for path, want := range map[string]string{"/m": "/m default", "/": "code"} {
		if got := embedded.Get(t, url+path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	write(route + "text = \"other\"\n")
	must.Do(t, r.Reload(s))
	if got := embedded.Get(t, url+"/m"); got != "/m other" {
		t.Errorf("after the reload: %q", got)
	}
}

// TestReloadRefuses: what cannot change while a server runs is an error, and not passed over. Zero
// stands for what there is.
func TestReloadRefuses(t *testing.T) {
	log := new(logtext.Buffer)
	s := lwango.Server{Addr: "127.0.0.1:0", Handler: embedded.Says("old"), Threads: 1, Workers: 8,
		Logger: slog.New(slog.NewTextHandler(log, nil))}
	r, stop := embedded.Start(t, s)
	for want, change := range map[string]func(s *lwango.Server){
		"Threads: cannot change from 1 to 2 ": func(s *lwango.Server) { s.Threads = 2 },
		"Workers: cannot change from 8 to 9 ": func(s *lwango.Server) { s.Workers = 9 },
		"Handoff: cannot change from direct to channel ": func(s *lwango.Server) {
			s.Handoff = coro.Channel
		},
	} {
		next := s
		next.Handler = embedded.Says("new")
		change(&next)
		if err := r.Reload(next); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if got := embedded.Get(t, "http://"+r.Addrs()[0]); got != "old" {
			t.Errorf("%s: %q", want, got)
		}
	}
	s.Handler, s.Threads, s.Workers = embedded.Says("new"), 0, 0
	log.Reset()
	if err := r.Reload(s); err != nil {
		t.Error(err)
	}
	if got := embedded.Get(t, "http://"+r.Addrs()[0]); got != "new" {
		t.Errorf("at last: %q", got)
	}
	if text := log.String(); !strings.Contains(text, "msg=reloaded by=") ||
		strings.Contains(text, "file") {
		t.Errorf("logged: %s", text)
	}
	stop()
}

// TestReloadOnLoop: a handler that calls Reload on its loop, which Reload would wait for, gets an
// error at once; off the loop it does not.
func TestReloadOnLoop(t *testing.T) {
	for _, handoff := range []coro.Handoff{coro.Direct, coro.Channel} {
		var r *lwango.Running
		started := make(chan struct{})
		s := lwango.Server{Addr: "127.0.0.1:0", Threads: 1, Handoff: handoff, Logger: logtext.Quiet}
		next := s
		next.Handler = embedded.Says("new")
		s.Handler = lwango.Handler(func(req *lwango.Request, resp *lwango.Response) int {
			<-started // then r is set
			if err := r.Reload(next); err == nil || !strings.Contains(err.Error(), "was called on a loop") {
				t.Errorf("on the loop: %v", err)
			}
			if err := req.Await(-1, func(context.Context) error { return r.Reload(next) }); err != nil {
				t.Errorf("off the loop: %v", err)
			}
			return resp.Text(200, "old")
		})
		running, stop := embedded.Start(t, s)
		r = running
		close(started)
		for _, want := range []string{"old", "new"} {
			if got := embedded.Get(t, "http://"+r.Addrs()[0]); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		stop()
	}
}
