package conn_test

import (
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/race"
)

var madeID = regexp.MustCompile("^[0-9a-f]{32}$")

func sayID(req *conn.Request, resp *conn.Response) int {
	if string(req.Layer().IDView()) != req.ID() {
		return 500
	}
	resp.WriteString(req.ID())
	return 200
}

// TestRequestID: the id is that of a trusted proxy, if there is one of the right form, or else a
// new one, and the access log has the same.
func TestRequestID(t *testing.T) {
	log := new(entries)
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: byPath(map[string]conn.Handler{
			"/": sayID,
			"/http": conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, conn.RequestID(r.Context()))
			})),
			"/onloop": conn.HTTPOnLoop(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, conn.RequestID(r.Context()))
			})),
		}), AccessLog: log, Proxies: only(trusting("127.0.0.2/32"))})
		proxy, stranger := from(s, "127.0.0.2"), from(s, "127.0.0.1")
		seen := map[string]bool{}
		long := strings.Repeat("x", 128)
		for _, row := range []struct {
			c            *client
			fields, want string
			why          string
		}{
			{stranger, "", "", "nothing is said"},
			{stranger, "X-Request-ID: abc\r\n", "", "nobody believes a stranger"},
			{proxy, "", "", "the proxy says nothing"},
			{proxy, "x-request-id: 2f6c-A_.:+/=@z\r\n", "2f6c-A_.:+/=@z", "all letters that may be"},
			{proxy, "", "", "nothing is left of the last request"},
			{proxy, "X-Request-ID: " + long + "\r\n", long, "the longest"},
			{proxy, "X-Request-ID: " + long + "x\r\n", "", "too long"},
			{proxy, "X-Request-ID:\r\n", "", "empty"},
			{proxy, "X-Request-ID: a b\r\n", "", "a space"},
			{proxy, "X-Request-ID: a\"b\r\n", "", "a quote"},
			{proxy, "X-Request-ID: a\xffb\r\n", "", "no ASCII"},
			{proxy, "X-Request-ID: a\r\nX-Request-ID: b\r\n", "", "one may be the client's"},
		} {
			for _, path := range []string{"/", "/http", "/onloop"} {
				got := row.c.Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n"+row.fields+"\r\n").Text
				switch {
				case row.want == "" && (!madeID.MatchString(got) || seen[got]):
					t.Errorf("%s, %s: %q is not new", row.why, path, got)
				case row.want != "" && got != row.want:
					t.Errorf("%s, %s: got %q, want %q", row.why, path, got, row.want)
				}
				seen[got] = true
				if e := log.one(t); string(e.ID) != got {
					t.Errorf("%s, %s: logged as %q, not %q", row.why, path, e.ID, got)
				}
			}
		}
		send(t, stranger.Conn, "GET / HTTP/1.1\r\n\r\n")
		stranger.Answer("GET")
		if e := log.one(t); !madeID.MatchString(string(e.ID)) {
			t.Errorf("a request that was refused: %q", e.ID)
		}
	}, plain, direct)
}

// TestRequestIDInLog: a line of the log about a request has its id.
func TestRequestIDInLog(t *testing.T) {
	text := new(logtext.Buffer)
	log := new(entries)
	s := start(t, direct, conn.Config{AccessLog: log, Logger: slog.New(slog.NewTextHandler(text, nil)),
		Handler: func(*conn.Request, *conn.Response) int { panic("oh") }})
	s.Panics.Expect()
	s.Dial().Do("GET", get)
	e := log.one(t)
	if !strings.Contains(text.String(), "request_id="+string(e.ID)+" ") {
		t.Errorf("no %s in\n%s", e.ID, text.String())
	}
}

// TestRequestIDAllocates: an id costs nothing where it is not a string.
func TestRequestIDAllocates(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector allocates")
	h := func(view bool) conn.Handler {
		return func(req *conn.Request, _ *conn.Response) int {
			if view && len(req.Layer().IDView()) != 32 {
				return 404
			}
			return 204
		}
	}
	s := start(t, direct, conn.Config{Handler: h(true)})
	with := s.Allocs(get)
	s.Configure(conn.Config{Handler: h(false)})
	if without := s.Allocs(get); with > without+0.5 {
		t.Errorf("%v allocations, %v without an id", with, without)
	}
}

func BenchmarkRequestID(b *testing.B) {
	b.ReportAllocs()
	var buf [32]byte
	for b.Loop() {
		conn.MakeID(&buf)
	}
}
