package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// h2load is the program that loads servers over HTTP/2, of nghttp2.
const h2load = "h2load"

// browserFields are those of a request that a page makes. Each is the same in every request, so
// that a server finds it in the table that it shares with the client (RFC 7541, section 2.3.2).
var browserFields = []string{
	"user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
	"accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
	"accept-language: de,en-US;q=0.7,en;q=0.3",
	"accept-encoding: identity",
	"referer: https://www.example.org/articles/2026/11/a-web-server.html",
	"cookie: session=0123456789abcdef0123456789abcdef; theme=dark",
	"sec-fetch-dest: document",
	"sec-fetch-mode: navigate",
	"sec-fetch-site: same-origin",
	"priority: u=0, i",
}

// browserTargets is how many targets there are where requests have a browser's fields: their path
// is a literal then, which a server decodes.
const browserTargets = 64

// loadHTTP2 measures as many requests as possible. The client is h2load, which costs less than one
// in Go would: at a hundred streams a server answers in less than a microsecond.
func loadHTTP2(j job) figures {
	j.verifyHTTP2()
	if j.Warmup > 0 {
		j.runH2load(j.Warmup)
	}
	m := newMeter(j.Group)
	return m.figures(float64(j.runH2load(j.Duration)))
}

func (j job) url() string {
	if j.Secure {
		return "https://" + j.Addr + j.Path
	}
	return "http://" + j.Addr + j.Path
}

var h2loadCounts = regexp.MustCompile(
	`(?m)^requests: .* (\d+) succeeded, (\d+) failed, (\d+) errored`)

// runH2load returns how many requests were answered. None may fail. The time has the handshakes in
// it, so it is half a second at least.
func (j job) runH2load(d time.Duration) int {
	d = max(d, time.Second/2)
	argv := []string{
		"--clients=" + strconv.Itoa(j.Conns), "--max-concurrent-streams=" + strconv.Itoa(j.Streams),
		"--duration=" + strconv.FormatInt(d.Milliseconds(), 10) + "ms",
	}
	urls := []string{j.url()}
	if j.Browser {
		for _, field := range browserFields {
			argv = append(argv, "--header="+field)
		}
		urls = nil
		for i := range browserTargets {
			urls = append(urls, j.url()+"?page="+strconv.Itoa(i))
		}
	}
	cmd := exec.Command(j.Tool, append(argv, urls...)...)
	out := must(cmd.CombinedOutput())
	found := h2loadCounts.FindSubmatch(out)
	if found == nil || string(found[2]) != "0" || string(found[3]) != "0" {
		failf("%s: %s", cmd, out)
	}
	n := must(strconv.Atoi(string(found[1])))
	if n == 0 {
		failf("%s: nothing was answered: %s", cmd, out)
	}
	return n
}

// standardClient is net/http's. The caller calls the function at the end.
func (j job) standardClient() (*http.Client, func()) {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(j.Secure)
	protocols.SetUnencryptedHTTP2(!j.Secure)
	t := &http.Transport{
		Protocols:   protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return j.dial(), nil },
	}
	if j.Secure {
		t.TLSClientConfig = j.trust()
		// nghttpd's
		t.TLSClientConfig.MinVersion, t.TLSClientConfig.CurvePreferences = tls.VersionTLS12, nil
	}
	return &http.Client{Transport: t, Timeout: verifyLimit}, t.CloseIdleConnections
}

// verifyHTTP2 asks with net/http's client and compares what comes.
func (j job) verifyHTTP2() {
	c, leave := j.standardClient()
	defer leave()
	resp := must(c.Get(j.url()))
	defer resp.Body.Close()
	body, kind := must(io.ReadAll(resp.Body)), resp.Header.Get("Content-Type")
	switch {
	case resp.ProtoMajor != 2:
		failf("GET %s: %s", j.Path, resp.Proto)
	case resp.StatusCode != http.StatusOK:
		failf("GET %s: status %s", j.Path, resp.Status)
	case !bytes.Equal(body, j.body()):
		failf("GET %s: wrong body, begins with %.60q", j.Path, body)
	case files[j.Path] == nil && !strings.HasPrefix(kind, "text/"):
		failf("GET %s: Content-Type %s", j.Path, kind)
	case resp.Header.Get("Date") == "" || resp.Header.Get("Server") == "":
		failf("GET %s: Date or Server is missing", j.Path)
	}
}

// verifyGRPC calls with net/http's client and compares what comes back of a message.
func (j job) verifyGRPC(message []byte) {
	c, leave := j.standardClient()
	defer leave()
	req := must(http.NewRequest(http.MethodPost, j.url(), bytes.NewReader(message)))
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	resp := must(c.Do(req))
	defer resp.Body.Close()
	body := must(io.ReadAll(resp.Body))
	switch {
	case resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK:
		failf("POST %s: %s %s", j.Path, resp.Proto, resp.Status)
	case !bytes.Equal(body, message):
		failf("POST %s: wrong body, begins with %.60q", j.Path, body)
	case resp.Trailer.Get("Grpc-Status") != "0":
		failf("POST %s: trailers %v", j.Path, resp.Trailer)
	}
}
