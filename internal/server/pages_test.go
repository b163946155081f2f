package server_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/fcgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	testserver "github.com/lwango/lwango/internal/test/server"
)

// TestPageOfFrontController: an application that answers what REQUEST_URI names is asked for the
// error page, whatever the client has asked for: it must not answer with what was refused.
func TestPageOfFrontController(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		_ = fcgi.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "this is ", r.URL.RequestURI()) // of REQUEST_URI
		}))
		close(served)
	}()
	defer func() { listener.Close(); <-served }()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index.php": "", "users": "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for refuse, want := range map[string]int{
		"auth = { htpasswd = '" + dir + "/users' }": 401,
		"limit = { deny = ['127.0.0.0/8'] }":        403,
		"rule = [{ path = '/secret', deny = 404 }]": 404,
	} {
		text := fmt.Sprintf("[[site]]\n%s\nerror_pages = { %d = '/log%%20in' }\n[[site.route]]\n"+
			"prefix = '/'\nmodule = 'fastcgi'\naddress = '%s'\nscript_path = '%s'\n"+
			"try_files = 'front'\n", refuse, want, listener.Addr(), dir)
		c, err := source().Parse("t.conf", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		s := testserver.Start(t, modes.Direct, conn.Config{Handler: c.Router.Serve})
		for _, target := range []string{"/secret?x=1", "http://test.example/secret?x=1"} {
			a := s.Request("GET "+target, nil, "")
			if a.StatusCode != want || a.Text != "this is /log%20in" {
				t.Errorf("%s, %s: %s, %q", refuse, target, a.Status, a.Text)
			}
		}
	}
}

// TestPageIsNoTunnel: a client that wants to upgrade its connection and is refused gets the error
// page. The application that makes the page does not learn of the upgrade, and so cannot agree.
func TestPageIsNoTunnel(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.WriteHeader(http.StatusSwitchingProtocols)
			return
		}
		fmt.Fprint(w, "log in at ", r.URL, r.Header["Cookie"])
	}))
	defer web.Close()
	text := fmt.Sprintf("[[site]]\nerror_pages = { 403 = '/login' }\nlimit = { deny = ['127.0.0.0/8'] }\n"+
		"[[site.route]]\nprefix = '/'\nmodule = 'proxy'\naddress = '%s'\n", web.Listener.Addr())
	c, err := source().Parse("t.conf", text)
	if err != nil {
		t.Fatal(err)
	}
	s := testserver.Start(t, modes.Direct, conn.Config{Handler: c.Router.Serve})
	a := s.Request("GET /chat", []string{"Connection: Upgrade, Cookie", "Upgrade: websocket",
		"Sec-WebSocket-Key: k", "Cookie: a=b"}, "")
	if a.StatusCode != 403 || a.Text != "log in at /login [a=b]" || a.Header.Get("Upgrade") != "" {
		t.Errorf("%s, %q, %v", a.Status, a.Text, a.Header)
	}
}
