package cgi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/cgi"
)

func TestFields(t *testing.T) {
	for _, tt := range []struct {
		fields, want string // a line each, the parameters without HTTP_
		underscores  bool
	}{
		{"Accept: a\nAccept-Language: b\nX-1: c", "ACCEPT=a\nACCEPT_LANGUAGE=b\nX_1=c", false},
		// httpoxy, in any case.
		{"Proxy: x\npROXY: y\nPROXY: z\nProxy-Authorization: a\nProxy-Connection: b\nProxy-: c\n" +
			"Proxy-X: f\nProxy-Four: g\nProxy-Sixteen123: h\nProxyx: d\nX-Proxy: e",
			"PROXYX=d\nX_PROXY=e", false},
		// Names that would become another's.
		{"X_Forwarded_For: 6.6.6.6\nX-Forwarded-For: 1.1.1.1\nX.Forwarded.For: 7",
			"X_FORWARDED_FOR=1.1.1.1", false},
		{"X_A: 1\nX+B: 2\nX~: 3\n: 4\n\xc3\xbc: 5\nX A: 6\nX\x00: 7\n_: 8", "", false},
		{"X_A: 1\nX-A: 2\nX.A: 3\nContent_Length: 4\nContent_Type: 5\nTransfer_Encoding: 6\n" +
			"Keep_Alive: 7\nPROXY_X: 8",
			"X_A=1, 2", true},
		// The connection is ours.
		{"Connection: keep-alive\nKeep-Alive: x\nTE: trailers\nTransfer-Encoding: chunked\n" +
			"Upgrade: h2c\n" +
			"Trailer: y\nExpect: z",
			"EXPECT=z", false},
		{"Connection: close, X-Hop,,\t,x-gone ,keep-alive\nX-Hop: 1\nX-GONE: 2\nX-Stays: 3\n" +
			"X-Hop: 4", "X_STAYS=3",
			false},
		{"Connection: a\nA: 1\nB: 2\nConnection: B\nC: 3", "C=3", false},
		{"Connection: Cookie, Host, Content-Type\nCookie: a\nContent-Type: b", "", false},
		{"Content-Length: 5\nContent-Type: x\nContent-Encoding: gzip\nContent-Range: r",
			"CONTENT_ENCODING=gzip\nCONTENT_RANGE=r", false},
		// Repeats, in the place of the first.
		{"A: 1\nB: x\na: 2\nA: 3", "A=1, 2, 3\nB=x", false},
		{"Cookie: a=1\nX: y\ncookie: b=2\nCOOKIE: c=3", "COOKIE=a=1; b=2; c=3\nX=y", false},
		{"Cookies: 1\nCookies: 2", "COOKIES=1, 2", false},
		{"A:\nA: 1\nA:", "A=, 1, ", false},
		{"X-Forwarded-For: 1\nX-Forwarded-For: 2", "X_FORWARDED_FOR=1, 2", false},
		// Names that are parameters without HTTP_ are harmless with it.
		{"Script-Filename: /etc/passwd\nPhp-Value: x\nRemote-Addr: y\nHttps: on\nHttp-Host: z",
			"SCRIPT_FILENAME=/etc/passwd\nPHP_VALUE=x\nREMOTE_ADDR=y\nHTTPS=on\nHTTP_HOST=z",
			false},
	} {
		r := base()
		r.Host, r.Underscores = "", tt.underscores
		r.Fields = fieldsOf(tt.fields)
		list, err := params(t, &r)
		if got := httpOnly(list); got != tt.want || err != nil {
			t.Errorf("%q: %v\n got %q\nwant %q", tt.fields, err, got, tt.want)
		}
	}
}

// TestTrustedFields: Connection removes the fields that it names, but not those that are trusted.
func TestTrustedFields(t *testing.T) {
	r := base()
	r.Host, r.Underscores, r.Trusted = "", true, []string{"X-Forwarded-For", "x-real-ip"}
	r.Fields = fieldsOf("Connection: x-forwarded-for, X-Real-IP, X-Hop, X_Forwarded_For" +
		strings.Repeat(",X-Real-Ip", 20) +
		"\nX-Forwarded-For: 1\nX-Real-IP: 2\nX-Hop: 3\nX-Stays: 4")
	list, err := params(t, &r)
	if got := httpOnly(list); got != "X_FORWARDED_FOR=1\nX_REAL_IP=2\nX_STAYS=4" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestFieldsAreLinear: sixteen times the fields take about sixteen times as long, however alike or
// different their names are. To compare each with each, they would take 256 times.
func TestFieldsAreLinear(t *testing.T) {
	const few, times = 250, 16
	for kind, name := range map[string]func(i int) string{
		"different": func(i int) string { return fmt.Sprintf("X-%06d", i) },
		"equal":     func(int) string { return "X-000000" },
		"in pairs":  func(i int) string { return fmt.Sprintf("X-%06d", i/2) },
	} {
		fill := func(n int) func() time.Duration {
			r := base()
			var fields cgi.List
			for i := range n {
				fields = append(fields, cgi.Field{Name: name(i), Value: "v"})
			}
			r.Fields = fields
			return func() time.Duration {
				begin := time.Now()
				must.Get(params(t, &r))(t)
				return time.Since(begin)
			}
		}
		short, long := fill(few), fill(times*few)
		a, b := short(), long()
		for range 30 { // the machine may be busy, and interrupt the long one each time for a while
			if b <= 5*times*a {
				break
			}
			a, b = min(a, short()), min(b, long())
		}
		t.Logf("%s: %v for %d, %v for %d", kind, a, few, b, times*few)
		if b > 5*times*a {
			t.Errorf("%s: %v for %d fields, %v for %d", kind, a, few, b, times*few)
		}
	}
}

func fieldsOf(text string) (fields cgi.List) {
	for line := range strings.SplitSeq(text, "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields = append(fields, cgi.Field{Name: name, Value: strings.TrimPrefix(value, " ")})
		}
	}
	return fields
}

func httpOnly(list [][2]string) string {
	var s []string
	for _, p := range list {
		if name, ok := strings.CutPrefix(p[0], "HTTP_"); ok {
			s = append(s, name+"="+p[1])
		}
	}
	return strings.Join(s, "\n")
}

func FuzzFields(f *testing.F) {
	for _, s := range []string{
		"A: 1\nB: x\na: 2", "Cookie: a\nCookie: b", "Connection: x, y\nX: 1\nY: 2",
		"Proxy: a\nX_Y: b\nX-Y: c",
		"Content_Type: a", "X-Request-ID: 1", "Connection: close\nClose: 1", "ho\u017ft: a",
		"Connection: " + strings.Repeat("x,", 20),
	} {
		f.Add(s, true, "HTTP_X_Y")
		f.Add(s, false, "")
	}
	f.Fuzz(func(t *testing.T, text string, underscores bool, configured string) {
		r := base()
		fields := fieldsOf(text)
		r.Host, r.Underscores, r.Fields = "", underscores, fields
		if configured != "" {
			r.Params = []cgi.Field{{Name: configured, Value: "c"}}
		}
		list, err := params(t, &r)
		if err != nil {
			if !slices.Contains([]error{cgi.ErrPairNUL, cgi.ErrPairSize, cgi.ErrOptions}, err) {
				t.Fatal(err)
			}
			return
		}

		// The slow way: all that may be sent, by name.
		drop := strings.Fields("PROXY CONNECTION KEEP_ALIVE TE TRAILER TRANSFER_ENCODING UPGRADE " +
			"CONTENT_LENGTH CONTENT_TYPE HOST X_REQUEST_ID")
		for _, f := range fields {
			if strings.EqualFold(f.Name, "connection") {
				for o := range strings.SplitSeq(f.Value, ",") {
					if o = upperASCII(strings.Trim(o, " \t")); o != "CLOSE" { // which names no field
						drop = append(drop, o)
					}
				}
			}
		}
		want := make(map[string]string)
		for _, f := range fields {
			name := upperASCII(f.Name)
			ok := f.Name != "" && !strings.HasPrefix(name, "PROXY_") && !slices.Contains(drop, name)
			for _, c := range []byte(f.Name) {
				ok = ok && (c == '-' || c == '_' && underscores || '0' <= c && c <= '9' ||
					'a' <= c|32 && c|32 <= 'z')
			}
			if !ok {
				continue
			}
			if old, ok := want[name]; ok {
				if strings.EqualFold(f.Name, "cookie") {
					want[name] = old + "; " + f.Value
				} else {
					want[name] = old + ", " + f.Value
				}
			} else {
				want[name] = f.Value
			}
		}
		for _, f := range fields {
			if upperASCII(f.Name) == "HOST" {
				want["HOST"] = ""
			}
		}
		if name, ok := strings.CutPrefix(configured, "HTTP_"); ok {
			want[name] = "c"
		}
		seen := make(map[string]bool)
		for _, p := range list {
			if seen[p[0]] {
				t.Fatalf("%q: %s is there twice", text, p[0])
			}
			seen[p[0]] = true
			name, ok := strings.CutPrefix(p[0], "HTTP_")
			if !ok {
				continue
			}
			if v, ok := want[name]; !ok || v != p[1] {
				t.Fatalf("%q: %s is %q, want %q, %v", text, p[0], p[1], v, ok)
			}
			delete(want, name)
		}
		if len(want) > 0 {
			t.Fatalf("%q: %q are missing", text, want)
		}
	})
}

func upperASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c == '-' {
			b[i] = '_'
		} else if 'a' <= c && c <= 'z' {
			b[i] -= 32
		}
	}
	return string(b)
}
