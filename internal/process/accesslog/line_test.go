package accesslog_test

import (
	"crypto/tls"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/test/must"
)

func entry() *conn.AccessEntry {
	return &conn.AccessEntry{
		Remote: netip.MustParseAddrPort("192.0.2.7:1234"),
		Time:   time.Date(2026, 2, 3, 4, 5, 6, 0, time.Local),
		Method: "GET", Target: []byte("/a?b"), Proto: "HTTP/1.1",
		Status: 200, Bytes: 12,
	}
}

func lineOf(t *testing.T, format string, e *conn.AccessEntry) string {
	t.Helper()
	line := must.Get(accesslog.LineOf(format))(t)
	return string(line(e))
}

func TestLines(t *testing.T) {
	stamp := entry().Time.Format("[02/Jan/2006:15:04:05 -0700]")
	tests := []struct {
		name, format string
		change       func(e *conn.AccessEntry)
		want         string
	}{
		{"common", "common", func(e *conn.AccessEntry) {},
			`192.0.2.7 - - TIME "GET /a?b HTTP/1.1" 200 12`},
		{"combined, nothing sent along", "combined", func(e *conn.AccessEntry) {},
			`192.0.2.7 - - TIME "GET /a?b HTTP/1.1" 200 12 "-" "-"`},
		{"combined", "combined",
			func(e *conn.AccessEntry) { e.Referer, e.UserAgent = []byte("http://r/"), []byte("ua") },
			`192.0.2.7 - - TIME "GET /a?b HTTP/1.1" 200 12 "http://r/" "ua"`},
		{"a user", "combined", func(e *conn.AccessEntry) { e.User = "ann" },
			`192.0.2.7 - ann TIME "GET /a?b HTTP/1.1" 200 12 "-" "-"`},
		{"a user who would forge a line", "common",
			func(e *conn.AccessEntry) { e.User = "ann lee \"\n\\ü" },
			`192.0.2.7 - ann\x20lee\x20\x22\x0A\x5C\xC3\xBC TIME "GET /a?b HTTP/1.1" 200 12`},
		{"no body", "common", func(e *conn.AccessEntry) { e.Status, e.Bytes = 304, 0 },
			`192.0.2.7 - - TIME "GET /a?b HTTP/1.1" 304 -`},
		{"IPv6", "common", func(e *conn.AccessEntry) {
			e.Remote = netip.MustParseAddrPort("[2001:db8::1]:80")
		},
			`2001:db8::1 - - TIME "GET /a?b HTTP/1.1" 200 12`},
		{"UNIX socket", "common", func(e *conn.AccessEntry) { e.Remote = netip.AddrPort{} },
			`unix: - - TIME "GET /a?b HTTP/1.1" 200 12`},
		{"no request line", "common",
			func(e *conn.AccessEntry) { e.Method, e.Target, e.Status = "", nil, 400 },
			`192.0.2.7 - - TIME "-" 400 12`},
		{"no request line, but something", "common", func(e *conn.AccessEntry) {
			e.Method, e.Target, e.Status, e.Line = "", nil, 400, []byte("\x16\x03\x01 \"x\"")
		}, `192.0.2.7 - - TIME "\x16\x03\x01 \x22x\x22" 400 12`},
		{"a WebSocket", "combined", func(e *conn.AccessEntry) {
			e.Status, e.Bytes, e.Hijacked, e.Duration, e.CloseCode = 101, 0, true, 83*time.Second+
				4567*time.Microsecond, 1001
		}, `192.0.2.7 - - TIME "GET /a?b HTTP/1.1" 101 - "-" "-" duration=83.005 close=1001`},
		{"another protocol", "common", func(e *conn.AccessEntry) {
			e.Status, e.Bytes, e.Hijacked, e.Duration = 101, 0, true, 1500*time.Microsecond
		}, `192.0.2.7 - - TIME "GET /a?b HTTP/1.1" 101 - duration=0.002`},
		{"a forged line", "combined", func(e *conn.AccessEntry) {
			e.Target, e.UserAgent = []byte(`/"`), []byte("x\"\n1.2.3.4 - - \\ \x1b[2J\x7f\xc3\xa4")
		},
			`192.0.2.7 - - TIME "GET /\x22 HTTP/1.1" 200 12 "-" "x\x22\x0A1.2.3.4 - - \x5C \x1B[2J\x7F\xC3\xA4"`},
	}
	full := func(e *conn.AccessEntry) {
		e.Time = time.Date(2026, 2, 3, 4, 5, 6, 7_890_000, time.UTC)
		e.Host, e.Referer, e.UserAgent, e.User = []byte("h.test"), []byte("r"),
			[]byte("u\"\\\n\x1b\x7f\xc2\x9b\xffä€"), "ann lee"
		e.Secure, e.Duration, e.CloseCode = true, 1234567*time.Nanosecond, 1001
		e.ID, e.Received, e.TLSVersion, e.CipherSuite = []byte("abc-1"), 345, tls.VersionTLS13,
			tls.TLS_AES_128_GCM_SHA256
		e.Upstream, e.UpstreamFirst, e.UpstreamTime = "unix:/run/\"a", 250*time.Millisecond,
			61*time.Second+time.Microsecond
	}
	tests = append(tests, []struct {
		name, format string
		change       func(e *conn.AccessEntry)
		want         string
	}{
		{"json", "json", full,
			`{"time":"2026-02-03T04:05:06.007Z","request_id":"abc-1","remote":"192.0.2.7","user":"ann lee","method":"GET",` +
				`"scheme":"https","host":"h.test","target":"/a?b","proto":"HTTP/1.1","tls_version":"TLSv1.3","tls_cipher":"TLS_AES_128_GCM_SHA256",` +
				`"status":200,"bytes":12,"bytes_in":345,"duration":0.001235,` +
				`"upstream":"unix:/run/\"a","upstream_first_byte":0.250000,"upstream_time":61.000001,` +
				`"referer":"r","user_agent":"u\"\\\u000a\u001b\u007f\u009b` + "\ufffdä€" + `","close":1001}`},
		{"json, no request line", "json", func(e *conn.AccessEntry) {
			e.Time = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
			e.Method, e.Target, e.Status, e.Line = "", nil, 400, []byte("\x16\x03")
			e.ID, e.Received = []byte("2f"), 2
		},
			`{"time":"2026-02-03T04:05:06.000Z","request_id":"2f","remote":"192.0.2.7","line":"\u0016\u0003","status":400,"bytes":12,"bytes_in":2,"duration":0.000000}`},
		{"json, an upstream that did not answer", "json", func(e *conn.AccessEntry) {
			e.Time = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
			e.ID, e.Upstream, e.UpstreamTime, e.Duration = []byte("2f"), "a:1", time.Second, -1
		},
			`{"time":"2026-02-03T04:05:06.000Z","request_id":"2f","remote":"192.0.2.7","method":"GET","scheme":"http","target":"/a?b",` +
				`"proto":"HTTP/1.1","status":200,"bytes":12,"bytes_in":0,"duration":0.000000,"upstream":"a:1","upstream_time":1.000000}`},
		{"json, a part of the upstreams", "json", func(e *conn.AccessEntry) {
			e.Time = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
			e.ID, e.Upstream, e.UpstreamSplit, e.UpstreamTime, e.Duration = []byte("2f"), "a:1", "beta",
				time.Second, -1
		},
			`{"time":"2026-02-03T04:05:06.000Z","request_id":"2f","remote":"192.0.2.7","method":"GET","scheme":"http","target":"/a?b",` +
				`"proto":"HTTP/1.1","status":200,"bytes":12,"bytes_in":0,"duration":0.000000,"upstream":"a:1","upstream_split":"beta","upstream_time":1.000000}`},
		{"text, all that is new",
			`{request_id} {bytes_in} {tls_version} {tls_cipher} {upstream} {upstream_first_byte} {upstream_time}`,
			full, `abc-1 345 TLSv1.3 TLS_AES_128_GCM_SHA256 unix:/run/\x22a 0.250000 61.000001`},
		{"text, nothing of it",
			`{request_id} {bytes_in} {tls_version} {tls_cipher} {upstream} {upstream_first_byte} {upstream_time}`,
			func(e *conn.AccessEntry) {}, `- 0 - - - - -`},
		{"text",
			`{remote} {user} {time_iso8601} "{request}" {method} {target} {proto} {scheme} {host} {status} {bytes} {duration} "{referer}" "{user_agent}" {close} {x y}`,
			full,
			`192.0.2.7 ann\x20lee 2026-02-03T04:05:06.007Z "GET /a?b HTTP/1.1" GET /a?b HTTP/1.1 https h.test 200 12 0.001235 "r" ` +
				`"u\x22\x5C\x0A\x1B\x7F\xC2\x9B\xFF\xC3\xA4\xE2\x82\xAC" 1001 {x y}`},
		{"text, little sent", `{remote} [{time}] {user} {host} {referer} {scheme} {close}`,
			func(e *conn.AccessEntry) { e.Method = "" },
			`192.0.2.7 TIME - - - http -`},
	}...)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := entry()
			test.change(e)
			got := lineOf(t, test.format, e)
			want := strings.Replace(test.want, "TIME", stamp, 1) + "\n"
			if got != want {
				t.Errorf("\n got %q\nwant %q", got, want)
			}
		})
	}
}

// TestFormats: what is no format is refused with what there is.
func TestFormats(t *testing.T) {
	for _, row := range []struct{ format, want string }{
		{"{stats}", "unknown placeholder {stats} (known: {bytes}, "},
		{"$remote_addr {status}", "$remote_addr: placeholders are written in braces"},
		{"{status}\n", "no control characters"},
		{"JSON", `expected "combined", "common", "json" or a text with placeholders`},
		{"", ""}, {"json", ""}, {"{status}", ""}, {"{status}\t{bytes}", ""},
	} {
		_, err := accesslog.LineOf(row.format)
		if row.want == "" && err != nil ||
			row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%q: %v, want %q", row.format, err, row.want)
		}
	}
}

// FuzzJSON: whatever clients send, a line is one JSON object with the texts that are UTF-8.
func FuzzJSON(f *testing.F) {
	f.Add("/a", "h", "agent")
	f.Add("/\x00\n\"\\", "\xff\xc2\x9b", "\u2028€")
	f.Fuzz(func(t *testing.T, target, host, agent string) {
		e := entry()
		e.Target, e.Host, e.UserAgent = []byte(target), []byte(host), []byte(agent)
		line := lineOf(t, "json", e)
		var got struct {
			Target, Host string
			Agent        string `json:"user_agent"`
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		for got, sent := range map[string]string{got.Target: target, got.Host: host, got.Agent: agent} {
			if got != strings.ToValidUTF8(sent, "\ufffd") && utf8.ValidString(sent) {
				t.Errorf("%q became %q", sent, got)
			}
		}
		if strings.IndexByte(line, '\n') != len(line)-1 ||
			strings.ContainsAny(line[:len(line)-1], "\x00\x1b\x7f") {
			t.Errorf("control characters in %q", line)
		}
	})
}

func BenchmarkLine(b *testing.B) {
	e := entry()
	e.Host, e.UserAgent = []byte("example.org"),
		[]byte("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0")
	for name, format := range map[string]string{"combined": "combined", "json": "json",
		"text": `{remote} - {user} [{time}] "{request}" {status} {bytes} "{referer}" "{user_agent}"`} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			line := must.Get(accesslog.LineOf(format))(b)
			for b.Loop() {
				line(e)
			}
		})
	}
}
