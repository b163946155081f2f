package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/internal/test/wait"
)

func TestMain(m *testing.M) { program.Main(m, main) }

const patience = wait.Patience

func happens(t *testing.T, event <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		t.Fatalf("%s: has not happened", what)
	}
}

func upstream(t *testing.T, h http.HandlerFunc) (address string) {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// silent is an upstream that takes a request and says nothing.
type silent struct {
	address string
	// closed when a request has arrived, and when its connection was closed
	asked, left chan struct{}
}

func newSilent(t *testing.T) *silent {
	s := &silent{asked: make(chan struct{}), left: make(chan struct{})}
	s.address = upstream(t, func(w http.ResponseWriter, r *http.Request) {
		close(s.asked)
		<-r.Context().Done()
		close(s.left)
	})
	return s
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, text) }
}

// sends is an upstream that sends these bytes, whatever they are, and closes the connection.
func sends(raw string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		io.WriteString(c, raw)
		c.Close()
	}
}

func start(t *testing.T, timeout string, upstreams ...string) *program.Server {
	t.Helper()
	args := []string{"-timeout", timeout}
	for _, address := range upstreams {
		args = append(args, "-upstream", address)
	}
	return program.Start(t, args...)
}

func get(t *testing.T, s *program.Server, path string) (*http.Response, string) {
	t.Helper()
	resp := must.Get(http.Get("http://" + s.Address + path))(t)
	return resp, must.Body(t, resp)
}

// The first good answer is the answer. The connections of slower upstreams are closed.
func TestFirst(t *testing.T) {
	slow := newSilent(t)
	good := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		<-slow.asked
		w.Header().Set("Content-Type", "text/x-good")
		io.WriteString(w, r.Host+" "+r.RequestURI)
	})
	s := start(t, "1m", slow.address, good)
	resp, body := get(t, s, "/first/some%20where?q=%2F")
	if want := good + " /some%20where?q=%2F"; resp.StatusCode != 200 || body != want {
		t.Errorf("got %s, %q, want %q", resp.Status, body, want)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/x-good" {
		t.Errorf("Content-Type %s", got)
	}
	if got := resp.Header.Get("X-Upstream"); got != good {
		t.Errorf("X-Upstream %s, want %s", got, good)
	}
	happens(t, slow.left, "the slow upstream's connection is closed")
}

// bad are upstreams that give no good answer.
func bad(t *testing.T) map[string]string {
	return map[string]string{
		"refuses":   refuse.Address(t),
		"hangs up":  upstream(t, sends("")),
		"no HTTP":   upstream(t, sends("220 mail.example ESMTP\r\n")),
		"cut short": upstream(t, sends("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort")),
		"too large": upstream(t, says(strings.Repeat("x", maxBody+1))),
		"fails": upstream(t, func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "sorry", 500)
		}),
		"not found":  upstream(t, http.NotFound),
		"elsewhere":  upstream(t, http.RedirectHandler("http://other.example/", 302).ServeHTTP),
		"no address": "nowhere:http",
	}
}

// Bad answers before the good one do not spoil it.
func TestFirstAmongBadOnes(t *testing.T) {
	release := make(chan struct{})
	all := []string{upstream(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		io.WriteString(w, "good")
	})}
	for _, address := range bad(t) {
		all = append(all, address)
	}
	all = append(all, upstream(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "sorry", 503)
		close(release)
	}))
	if resp, body := get(t, start(t, "1m", all...), "/first"); resp.StatusCode != 200 ||
		body != "good" {
		t.Errorf("got %s, %q", resp.Status, body)
	}
}

func TestFirstOfNone(t *testing.T) {
	var all []string
	for what, address := range bad(t) {
		t.Run(what, func(t *testing.T) {
			if resp, _ := get(t, start(t, "1m", address), "/first"); resp.StatusCode != 502 {
				t.Errorf("got %s", resp.Status)
			}
		})
		all = append(all, address)
	}
	if resp, _ := get(t, start(t, "1m", all...), "/first"); resp.StatusCode != 502 {
		t.Errorf("all: got %s", resp.Status)
	}
}

func TestFirstTimeout(t *testing.T) {
	t.Parallel()
	slow := newSilent(t)
	s := start(t, "2s", slow.address, refuse.Address(t))
	if resp, _ := get(t, s, "/first"); resp.StatusCode != 504 {
		t.Errorf("got %s", resp.Status)
	}
	happens(t, slow.left, "the slow upstream's connection is closed")
}

// table is what /all answers.
func table(t *testing.T, body string) (answers []answer) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &answers); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return answers
}

func TestAll(t *testing.T) {
	t.Parallel()
	slow := newSilent(t)
	fails := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "sorry", 500)
	})
	refuses := refuse.Address(t)
	one, two := upstream(t, says("one")), upstream(t, says("two"))
	resp, body := get(t, start(t, "5s", one, slow.address, fails, refuses, two), "/all/x")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	wants := []struct {
		address string
		status  int
		body    string
		error   string // a part of it
	}{
		{one, 200, "one", ""},
		{slow.address, 0, "", "timeout"},
		{fails, 500, "sorry\n", "500 Internal Server Error"},
		{refuses, 0, "", "refused"},
		{two, 200, "two", ""},
	}
	answers := table(t, body)
	if len(answers) != len(wants) {
		t.Fatalf("got %s", body)
	}
	for i, want := range wants {
		got := answers[i]
		if got.Upstream != want.address || got.Status != want.status || got.Body != want.body ||
			!strings.Contains(got.Error, want.error) || want.error == "" && got.Error != "" {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	happens(t, slow.left, "the slow upstream's connection is closed")
}

// Without any good answer the status says so; the table is there nevertheless.
func TestAllOfNone(t *testing.T) {
	t.Parallel()
	refuses := refuse.Address(t)
	slow := newSilent(t)
	tests := []struct {
		upstreams []string
		limit     string
		status    int
	}{
		{[]string{refuses, upstream(t, http.NotFound)}, "1m", 502},
		{[]string{refuses, slow.address}, "2s", 504},
	}
	for _, test := range tests {
		resp, body := get(t, start(t, test.limit, test.upstreams...), "/all")
		if resp.StatusCode != test.status {
			t.Errorf("got %s, want %d", resp.Status, test.status)
		}
		if answers := table(t, body); len(answers) != 2 || answers[0].Error == "" ||
			answers[1].Error == "" {
			t.Errorf("got %s", body)
		}
	}
}

// When the client leaves, the connections to the upstreams are closed.
func TestClientLeaves(t *testing.T) {
	for _, path := range []string{"/first", "/all"} {
		for _, how := range []string{"FIN", "reset"} {
			t.Run(path+" "+how, func(t *testing.T) {
				one, two := newSilent(t), newSilent(t)
				s := start(t, "1m", one.address, two.address)
				c := must.Get(net.Dial("tcp", s.Address))(t)
				must.Get(io.WriteString(c,
					"GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
				happens(t, one.asked, "one is asked")
				happens(t, two.asked, "two is asked")
				if how == "reset" {
					must.Do(t, c.(*net.TCPConn).SetLinger(0))
				}
				c.Close()
				happens(t, one.left, "one's connection is closed")
				happens(t, two.left, "two's connection is closed")
			})
		}
	}
}

// A loop whose handlers wait for upstreams serves others meanwhile.
func TestOthersAreServedMeanwhile(t *testing.T) {
	config := program.Configure(t, t.TempDir(), "threads = 1\n")
	asked, release := make(chan struct{}), make(chan struct{})
	address := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(asked)
			<-release
		}
		io.WriteString(w, r.URL.Path)
	})
	s := program.Start(t, "-c", config, "-timeout", "1m", "-upstream", address)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, body := get(t, s, "/first/slow"); body != "/slow" {
			t.Errorf("slow: got %q", body)
		}
	}()
	happens(t, asked, "the slow request is at the upstream")
	if _, body := get(t, s, "/first/fast"); body != "/fast" {
		t.Errorf("fast: got %q", body)
	}
	close(release)
	happens(t, done, "the slow request is answered")
}

func TestNoUpstream(t *testing.T) { program.Fails(t, nil, 2, "-upstream is missing") }
