package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// TestPageOfFrontController: an application that answers what REQUEST_URI names is asked for the
// error page, whatever the client has asked for: it must not answer with what was refused.
func TestPageOfFrontController(t *testing.T) {
	at := serveFCGI(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "this is ", r.URL.RequestURI()) // of REQUEST_URI
	}))
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "index.php"), "")
	must.Write(t, filepath.Join(dir, "users"), users)
	for refuse, want := range map[string]int{
		"auth = { htpasswd = '" + dir + "/users' }": 401,
		"limit = { deny = ['127.0.0.0/8'] }":        403,
		"rule = [{ path = '/secret', deny = 404 }]": 404,
	} {
		text := fmt.Sprintf("[[site]]\n%s\nerror_pages = { %d = '/log%%20in' }\n[[site.route]]\n"+
			"prefix = '/'\nmodule = 'fastcgi'\naddress = '%s'\nscript_path = '%s'\n"+
			"try_files = 'front'\n", refuse, want, at, dir)
		s := sites(t, source(), dir, text)
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
	t.Cleanup(web.Close)
	text := fmt.Sprintf(
		"[[site]]\nerror_pages = { 403 = '/login' }\nlimit = { deny = ['127.0.0.0/8'] }\n"+
			"[[site.route]]\nprefix = '/'\nmodule = 'proxy'\naddress = '%s'\n", web.Listener.Addr())
	s := sites(t, source(), "", text)
	a := s.Request("GET /chat", []string{"Connection: Upgrade, Cookie", "Upgrade: websocket",
		"Sec-WebSocket-Key: k", "Cookie: a=b"}, "")
	if a.StatusCode != 403 || a.Text != "log in at /login [a=b]" || a.Header.Get("Upgrade") != "" {
		t.Errorf("%s, %q, %v", a.Status, a.Text, a.Header)
	}
}

// TestIntercepted: with intercept_errors, the application's errors for which the route or its site
// has a page get it, and the others stay the application's. Where there are no pages, all errors
// get the built-in ones.
func TestIntercepted(t *testing.T) {
	app := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/"), ".php"))
		w.Header().Set("X-App", "yes")
		w.WriteHeader(status)
		if status != 410 {
			io.WriteString(w, "the application's")
		}
	})
	web := httptest.NewServer(app)
	t.Cleanup(web.Close)
	at := serveFCGI(t, app)
	dir := t.TempDir()
	for _, name := range []string{"404", "500"} {
		must.Write(t, filepath.Join(dir, name), "page "+name)
	}
	for _, module := range []string{
		fmt.Sprintf("module = 'proxy'\naddress = '%s'\n", web.Listener.Addr()),
		fmt.Sprintf("module = 'fastcgi'\naddress = '%s'\nscript_path = '%s'\ncheck_file = false\n",
			at, dir),
	} {
		for _, pages := range []bool{true, false} {
			for _, intercept := range []bool{true, false} {
				text := "[[site]]\n"
				route := fmt.Sprint("[[site.route]]\nprefix = '/'\n", module, "intercept_errors = ", intercept,
					"\n")
				if pages {
					text += "error_pages = { 404 = '404' }\n"
					route += "error_pages = { 500 = '500' }\n"
				}
				s := sites(t, source(), dir, text+route)
				for status, page := range map[int]string{200: "", 403: "", 404: "page 404", 410: "",
					500: "page 500", 503: ""} {
					own := intercept && status >= 400 && (page != "" || !pages)
					a := s.Request(fmt.Sprint("GET /", status, ".php"), nil, "")
					want := "the application's"
					switch {
					case own && pages:
						want = page
					case own:
						want = "<h1>"
					case status == 410: // without a body, which is the application's word, too
						want = ""
					}
					if a.StatusCode != status || !strings.Contains(a.Text, want) ||
						want == "" && a.Text != "" || (a.Header.Get("X-App") == "") != own {
						t.Errorf("%.18s, pages %v, intercept %v, %d: %s, %.60q", module, pages, intercept,
							status, a.Status, a.Text)
					}
				}
			}
		}
	}
}

// TestPageOfTooLarge: a body whose length is more than any route takes gets the page of the site or
// of the route, and no handler is asked.
func TestPageOfTooLarge(t *testing.T) {
	var asked atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" {
			asked.Add(1)
		}
		fmt.Fprint(w, "made for ", r.URL)
	}))
	t.Cleanup(web.Close)
	dir := t.TempDir()
	for _, name := range []string{"site", "route"} {
		must.Write(t, filepath.Join(dir, name), "page of the "+name)
	}
	const builtIn = "<h1>"
	for _, c := range []struct{ site, route, root, app string }{
		{"", "", builtIn, builtIn},
		{"413 = 'site'", "", "page of the site", "page of the site"},
		{"", "413 = 'route'", builtIn, "page of the route"},
		{"413 = 'site'", "413 = 'route'", "page of the site", "page of the route"},
		{"413 = '/large'", "404 = 'route'", "made for /large", "made for /large"},
		{"", "413 = '/app/large'", builtIn, "made for /app/large"},
	} {
		text := "max_body_size = '1KiB'\n[[site]]\nerror_pages = { " + c.site + " }\n"
		for _, prefix := range []string{"/", "/app"} {
			text += fmt.Sprintf("[[site.route]]\nprefix = '%s'\nmodule = 'proxy'\naddress = '%s'\n", prefix,
				web.Listener.Addr())
		}
		src := source()
		src.File = filepath.Join(dir, "lwango.conf")
		s := serve(t, src, text+"error_pages = { "+c.route+" }\nlimit = { max_body_size = '2KiB' }\n")
		for _, r := range []struct{ path, length, want string }{
			{"/", "2049", c.root}, {"/app/x", "2049", c.app}, {"/app/x", "2000000000", c.app},
			{"/", "1025", c.root},
		} {
			d := must.Get(net.Dial("tcp", s.at))(t)
			fmt.Fprintf(d,
				"POST %s HTTP/1.1\r\nHost: test.example\r\nExpect: 100-continue\r\nContent-Length: %s\r\n\r\n",
				r.path, r.length)
			a := must.Get(http.ReadResponse(bufio.NewReader(d), nil))(t)
			body := string(must.Get(io.ReadAll(a.Body))(t))
			if a.StatusCode != 413 || !strings.Contains(body, r.want) || !a.Close {
				t.Errorf("pages %+v, %s bytes to %s: %s, %q, want %q", c, r.length, r.path, a.Status, body,
					r.want)
			}
			d.Close()
		}
		s.end()
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the application was asked %d times", n)
	}
}
