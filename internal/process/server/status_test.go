package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// withStatus starts a server with a site that has a route /status, and this text behind it.
func withStatus(t *testing.T, text string,
	routes ...handlers.Route) (url string, reload func(text string)) {
	t.Helper()
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	with := func(text string) string {
		return "threads = 2\n" + route("prefix = \"/status\"\nmodule = \"status\"\n"+text)
	}
	src := source()
	src.Routes, src.Counters, src.Listen = routes, new(config.Counters), []string{"127.0.0.1:0"}
	s := serve(t, src, with(text))
	return "http://" + s.at, func(text string) { t.Helper(); s.reload(with(text)) }
}

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: wait.Patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp := must.Get(client.Get(url))(t)
	return resp, must.Body(t, resp)
}

func snapshot(t *testing.T, url string) (s metrics.Snapshot) {
	t.Helper()
	resp, text := get(t, url+"/status/json")
	if resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	must.Do(t, json.Unmarshal([]byte(text), &s))
	return s
}

func countsOf(s *metrics.Snapshot, name string) metrics.Route {
	for _, r := range s.Routes {
		if r.Route == name {
			return r
		}
	}
	return metrics.Route{}
}

// TestStatusCountsAll: what many connections on all loops ask for adds up, by route and status.
func TestStatusCountsAll(t *testing.T) {
	const clients, each = 20, 30
	hello := handlers.Route{Prefix: "/hello",
		Handler: func(req *conn.Request, resp *conn.Response) int {
			if req.SubPath() == "/bad" {
				return 500
			}
			_, _ = io.Copy(io.Discard, req.Body())
			resp.SetBody([]byte("hello"))
			return 200
		}}
	url, reload := withStatus(t,
		"[[site.route]]\nprefix = \"/fixed\"\nmodule = \"response\"\nbody = \"x\"\n", hello)
	load := func() {
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				transport := &http.Transport{}
				defer transport.CloseIdleConnections()
				client := http.Client{Transport: transport, Timeout: wait.Patience}
				for i := range each {
					path, body := "/hello", ""
					switch i % 3 {
					case 1:
						path = "/hello/bad"
					case 2:
						path, body = "/hello", "12345678"
					}
					resp, err := client.Post(url+path, "text/plain", strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
		}
		all.Wait()
	}
	load()
	_, _ = get(t, url+"/fixed")
	_, _ = get(t, url+"/nowhere")
	s := snapshot(t, url)
	check := func(s *metrics.Snapshot, rounds int64) {
		t.Helper()
		r, n := countsOf(s, "/hello"), rounds*clients*each
		if r.Site != "*" || r.Status != [6]int64{2: n * 2 / 3, 5: n / 3} || r.Calls() != n ||
			r.Got != n/3*8 {
			t.Errorf("/hello: %+v, want %d requests", r, n)
		}
		if r.Sent < n*2/3*5 || s.Requests.Errors != n/3 {
			t.Errorf("%d bytes, %d errors", r.Sent, s.Requests.Errors)
		}
		if r := countsOf(s, "/fixed"); r.Status != [6]int64{2: 1} {
			t.Errorf("/fixed: %+v", r)
		}
		if r := countsOf(s, ""); r.Status[4] != 1 {
			t.Errorf("what no route answers: %+v", r)
		}
		if len(s.Loops) != 2 || !s.Loops[0].Answered || s.Loops[0].Resume+s.Loops[1].Resume < n/2 {
			t.Errorf("loops: %+v", s.Loops)
		}
		c := s.Connections
		if s.Requests.Total != s.Requests.Running+sumOf(s) || s.Requests.Running != 1 {
			t.Errorf("requests: %+v, routes have %d", s.Requests, sumOf(s))
		}
		if c.Busy != 1 || c.Open != c.Busy+c.Idle+c.Hijacked+c.Lingering || c.Accepted < clients*rounds {
			t.Errorf("connections: %+v", c)
		}
	}
	check(&s, 1)
	reload("[[site.route]]\nprefix = \"/new\"\nmodule = \"response\"\nbody = \"x\"\n[[site.route]]\n" +
		"prefix = \"/fixed\"\nmodule = \"response\"\nbody = \"x\"\n")
	load()
	s = snapshot(t, url)
	check(&s, 2)
}

func sumOf(s *metrics.Snapshot) (n int64) {
	for i := range s.Routes {
		n += s.Routes[i].Requests()
	}
	return n
}

var (
	helpLine   = regexp.MustCompile(`^# HELP ([a-z0-9_]+) [^\n]+$`)
	typeLine   = regexp.MustCompile(`^# TYPE ([a-z0-9_]+) (counter|gauge|histogram)$`)
	sampleLine = regexp.MustCompile(
		`^([a-z0-9_]+)(\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*\})? (\S+)$`)
)

// parseMetrics is strict about the format: families stand together, behind HELP and TYPE, no sample
// comes twice, counters end in _total, and buckets of a histogram grow to the count.
func parseMetrics(t *testing.T, text string) map[string]float64 {
	t.Helper()
	if !strings.HasSuffix(text, "\n") {
		t.Error("the last line does not end")
	}
	samples, families := map[string]float64{}, map[string]bool{}
	family, kind, bucket := "", "", 0.0
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if m := helpLine.FindStringSubmatch(line); m != nil {
			family = m[1]
			if families[family] {
				t.Errorf("%s comes twice", family)
			}
			families[family] = true
			i++
			m := typeLine.FindStringSubmatch(lines[i])
			if m == nil || m[1] != family {
				t.Fatalf("behind HELP of %s: %s", family, lines[i])
			}
			if kind = m[2]; kind == "counter" != strings.HasSuffix(family, "_total") {
				t.Errorf("%s is a %s", family, kind)
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("line %d: %q", i+1, line)
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil || math.IsNaN(v) {
			t.Errorf("%s: %v", line, err)
		}
		name := m[1]
		if kind == "histogram" {
			name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"),
				"_count")
			switch {
			case strings.HasSuffix(m[1], "_bucket"):
				if v < bucket {
					t.Errorf("%s: less than the bucket before, %v", line, bucket)
				}
				if bucket = v; strings.Contains(line, `le="+Inf"`) {
					bucket = 0
				}
			case strings.HasSuffix(m[1], "_count"):
				inf := strings.TrimSuffix(m[1], "_count") + "_bucket" + strings.TrimSuffix(m[2], "}") +
					`,le="+Inf"}`
				if samples[inf] != v {
					t.Errorf("%s, but the last bucket has %v", line, samples[inf])
				}
			}
		}
		if name != family {
			t.Errorf("%s within %s", m[1], family)
		}
		if _, twice := samples[m[1]+m[2]]; twice {
			t.Errorf("%s comes twice", m[1]+m[2])
		}
		samples[m[1]+m[2]] = v
	}
	return samples
}

func TestStatusMetrics(t *testing.T) {
	url, _ := withStatus(t,
		"[[site.route]]\nprefix = \"/p\"\nmodule = \"proxy\"\naddress = [\"127.0.0.1:1\", "+
			"\"127.0.0.1:2\"]\n"+
			"mirror = { to = \"/status/copies\" }\n"+
			"[[site]]\nhost = 'a.example'\n[[site.route]]\nprefix = \"/q\"\nmodule = \"response\"\nbody = "+
			"\"x\"\n")
	_, _ = get(t, url+"/p")
	resp, text := get(t, url+"/status/metrics")
	if ct := resp.Header.Get("Content-Type"); ct != metrics.ContentType {
		t.Error(ct)
	}
	samples := parseMetrics(t, text)
	for _, want := range []string{`lwango_requests_total{site="*",route="/p",class="5xx"}`,
		`lwango_handler_seconds_count{site="*",route="/p"}`,
		`lwango_upstream_up{site="*",route="/p",address="127.0.0.1:1"}`,
		`lwango_mirror_active{site="*",route="/p",to="/status/copies"}`,
		`lwango_mirror_requests_total{site="*",route="/p",to="/status/copies"}`,
		`lwango_connections{state="idle"}`, `lwango_tls_handshakes_failed_total`,
		`lwango_slots_taken{of="handshakes"}`, `lwango_slots_waiting{of="handshakes"}`,
		`lwango_slots_taken{of="passwords"}`, `lwango_slots_waiting{of="passwords"}`,
		`lwango_loop_busy_seconds_total{loop="1"}`,
		`lwango_loop_yields_total{loop="0",code="WantRead"}`, `lwango_loop_stalls_total{loop="0"}`,
		`lwango_log_lines_lost_total{log="access"}`, `lwango_refusals_total{kind="max_connections"}`} {
		if _, ok := samples[want]; !ok {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	now := float64(time.Now().Unix())
	for name, most := range map[string]float64{
		`lwango_responses_total{site="*",route="/p",code="502"}`: 1,
		`process_start_time_seconds`:                             now + 1,
		`process_cpu_seconds_total`:                              1e6,
		`process_resident_memory_bytes`:                          1e12,
		`process_open_fds`:                                       samples["process_max_fds"],
		`lwango_config_last_reload_successful`:                   1,
		`lwango_config_last_reload_success_timestamp_seconds`:    now + 1,
	} {
		if got := samples[name]; got <= 0 || got > most {
			t.Errorf("%s is %v, at most %v", name, got, most)
		}
	}
}

// TestStatusOfReload: what the last reload has come to, and how many files are open.
func TestStatusOfReload(t *testing.T) {
	src := source()
	src.Counters = new(config.Counters)
	text := "threads = 1\n" + route("prefix = \"/status\"\nmodule = \"status\"\n")
	s := serve(t, src, text)
	look := func() (out metrics.Snapshot) {
		t.Helper()
		_, text := get(t, "http://"+s.at+"/status/json")
		must.Do(t, json.Unmarshal([]byte(text), &out))
		return out
	}
	first := look()
	if r := first.Reload; r.Configured.IsZero() || !r.Last.IsZero() || r.Error != "" {
		t.Errorf("at first: %+v", r)
	}
	s.write(text + "wrong = 1\n")
	s.ReloadAndLog()
	refused := look().Reload
	if refused.Refused != 1 || refused.Done != 0 || !strings.Contains(refused.Error, "wrong") ||
		refused.Last.IsZero() || !refused.Configured.Equal(first.Reload.Configured) {
		t.Errorf("refused: %+v", refused)
	}
	s.write(text)
	s.ReloadAndLog()
	done := look().Reload
	if done.Refused != 1 || done.Done != 1 || done.Error != "" || !done.Configured.Equal(done.Last) {
		t.Errorf("done: %+v", done)
	}
	before := look().Process.OpenFiles
	var open []net.Conn
	for range 50 {
		open = append(open, must.Dial(t, "tcp", s.at))
	}
	wait.Until(t, "they are counted", func() bool { return look().Process.OpenFiles >= before+100 })
	for _, c := range open {
		c.Close()
	}
}

// TestStatusPaths: the page and what is below it, and nothing else; rules hold as for any route.
func TestStatusPaths(t *testing.T) {
	url, reload := withStatus(t, "")
	for path, want := range map[string]string{
		"/status":            "302 /status/",
		"/status/":           "200 ",
		"/status/json":       "200 ",
		"/status/metrics":    "200 ",
		"/status/page.js":    "200 ",
		"/status/page.css":   "200 ",
		"/status/icon.svg":   "200 ",
		"/status/index.html": "404 ",
		"/status/metrics/":   "404 ",
		"/status/json/other": "404 ",
	} {
		resp, _ := get(t, url+path)
		if got := fmt.Sprintf("%d %s", resp.StatusCode, resp.Header.Get("Location")); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	c := must.Dial(t, "tcp", strings.TrimPrefix(url, "http://"))
	fmt.Fprint(c, "GET /status/json HTTP/1.1\r\nHost: a\r\n\r\n")
	_ = c.(*net.TCPConn).CloseWrite()
	_ = c.SetDeadline(time.Now().Add(wait.Patience))
	if text, err := io.ReadAll(c); err != nil || !strings.Contains(string(text), `"answered":true`) {
		t.Errorf("a client that has ended its sending half gets %q, %v", text, err)
	}
	reload("limit = { allow = [\"10.0.0.0/8\"] }\n")
	if resp, _ := get(t, url+"/status/json"); resp.StatusCode != 403 {
		t.Errorf("not allowed: %s", resp.Status)
	}
}

// TestStatusHistory: the counts come with those at the start, or of a minute ago if that is later,
// so that one look tells the rates. They go on over a reload.
func TestStatusHistory(t *testing.T) {
	url, reload := withStatus(t, "[[site.route]]\nprefix = \"/x\"\nmodule = \"response\"\nbody = \"x\"\n")
	for range 3 {
		_, _ = get(t, url+"/x")
	}
	reload("")
	for end := time.Now().Add(wait.Patience); ; {
		s := snapshot(t, url)
		if ago := s.MinuteAgo; ago != nil && ago.Uptime < s.Uptime && len(ago.Loops) == 2 &&
			s.Requests.Total-ago.Requests.Total > 0 && len(s.Warnings) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%+v", s)
		}
	}
}

// TestStatusPlacesAreBounded: however many routes reloads name, so many are counted.
func TestStatusPlacesAreBounded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "[[site.route]]\nprefix = \"/r%d\"\nmodule = \"response\"\nbody = \"x\"\n", i)
	}
	url, reload := withStatus(t, text.String())
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: wait.Patience}
	for range 2 {
		for i := range 2000 {
			resp := must.Get(client.Get(fmt.Sprintf("%s/r%d?q=%d", url, i, i)))(t)
			resp.Body.Close()
		}
		reload(strings.ReplaceAll(text.String(), `"/r`, `"/s`))
	}
	s := snapshot(t, url)
	if len(s.Routes) > 1000 || sumOf(&s) != 4000 {
		t.Errorf("%d routes with %d requests", len(s.Routes), sumOf(&s))
	}
}

// TestStatusHijacked: a connection that a handler has taken over counts as such until its end, or
// that of the http.Handler, and a handler that ends its goroutine leaves no request running.
func TestStatusHijacked(t *testing.T) {
	release := make(chan struct{})
	std := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n\r\n"))
		<-release
	})
	url, _ := withStatus(t, "",
		handlers.Route{Prefix: "/take", Handler: func(req *conn.Request, resp *conn.Response) int {
			c, _, err := resp.Hijack()
			if err != nil {
				t.Error(err)
				return 500
			}
			_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\n\r\n"))
			_ = req.Await(-1, func(context.Context) error { <-release; return nil })
			return 101
		}}, handlers.Route{Prefix: "/std", Handler: conn.HTTP(std)},
		handlers.Route{Prefix: "/exit", Handler: func(*conn.Request, *conn.Response) int {
			runtime.Goexit()
			return 200
		}})
	for _, path := range []string{"/take", "/std", "/exit"} {
		c := must.Dial(t, "tcp", strings.TrimPrefix(url, "http://"))
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
		_, _ = c.Read(make([]byte, 100))
	}
	s := snapshot(t, url)
	if c := s.Connections; c.Hijacked != 2 || c.Busy != 1 || c.Open != 3 {
		t.Errorf("while it is taken: %+v", c)
	}
	if r := countsOf(&s, "/take"); r.Status != [6]int64{1: 1} || r.Calls() != 0 {
		t.Errorf("/take: %+v", r)
	}
	close(release)
	for end := time.Now().Add(wait.Patience); ; {
		c := snapshot(t, url).Connections
		if c.Hijacked == 0 && c.Busy == 1 && c.Open <= 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("at the end: %+v", c)
		}
	}
}
