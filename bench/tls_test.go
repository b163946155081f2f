package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/bench/tasks"
)

// tlsJob is for a server of net/http with the certificate of all servers.
func tlsJob(t *testing.T) job {
	dir := t.TempDir()
	writeCertificate(dir)
	ln := listen(t)
	go serveNetHTTP(ln, "nethttp", filepath.Join(dir, "files"), "", "", true)
	o := chatTestOptions(ln.Addr().String())
	o.load = load{Path: "/", Collect: tasks.CollectPath, Secure: true, Conns: 4,
		Size:  int64(len(hello)),
		Depth: 1, Rate: 200}
	o.Root, o.Warmup, o.Duration, o.Settle = dir, 0, 100*time.Millisecond, 0
	return o
}

func TestTLS(t *testing.T) {
	j := tlsJob(t)
	for name, do := range map[string]func(job) figures{"perSecond": loadTLS, "bytesEach": loadTLSIdle,
		"handshakes": loadHandshakes} {
		f, err := attempt(do, j)
		if _, ok := f[name]; !ok || err != nil {
			t.Errorf("%s: %v %v", name, f, err)
		}
	}
	f, err := attempt(loadHandshakes, j)
	if h := f["handshakes"]; err != nil || h > 1.1*j.Rate {
		t.Errorf("%v handshakes/s, want at most %v: %v", h, j.Rate, err)
	}
}

// Another certificate than the servers' is none of them, whoever answers.
func TestTLSOther(t *testing.T) {
	j := tlsJob(t)
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	s.Config.ErrorLog = nil
	j.Addr = strings.TrimPrefix(s.URL, "https://")
	for _, do := range []func(job) figures{loadTLS, loadTLSIdle, loadHandshakes} {
		if f, err := attempt(do, j); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("%v %v", f, err)
		}
	}
}

func TestIdleSecured(t *testing.T) {
	j := tlsJob(t)
	j.Path, j.Size, j.Conns = tasks.EchoPath, 125, 60
	if f, err := attempt(loadIdleSecured, j); err != nil || f["resident"] <= 0 {
		t.Errorf("%+v, %v", f, err)
	}
}
