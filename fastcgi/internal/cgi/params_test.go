package cgi_test

import (
	"encoding/binary"
	"fmt"
	stdcgi "net/http/cgi"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi/internal/cgi"
	"github.com/lwango/lwango/fastcgi/internal/wire"
)

// params builds the parameters and reads them again, by a reader that shares nothing with package wire.
func params(t testing.TB, r *cgi.Request) (list [][2]string, err error) {
	var h wire.Head
	h.Begin(nil, false)
	r.AppendTo(&h)
	b, err := h.Finish()
	if err != nil {
		return nil, err
	}
	for b = b[16:]; len(b) > 0; {
		n := int(binary.BigEndian.Uint16(b[4:]))
		for content := b[8 : 8+n]; len(content) > 0; {
			var name, value []byte
			name, value, content = cutPair(t, content)
			list = append(list, [2]string{string(name), string(value)})
		}
		b = b[8+n:]
	}
	return list, nil
}

// cutPair cuts a pair off the front of p.
func cutPair(t testing.TB, p []byte) (name, value, rest []byte) {
	var n [2]int
	for i := range n {
		switch {
		case len(p) > 0 && p[0] < 128:
			n[i], p = int(p[0]), p[1:]
		case len(p) > 3:
			n[i], p = int(binary.BigEndian.Uint32(p)&^(1<<31)), p[4:]
		default:
			t.Fatal("a record ends within a length")
		}
	}
	if n[0]+n[1] > len(p) {
		t.Fatal("a pair ends behind its record")
	}
	return p[:n[0]], p[n[0] : n[0]+n[1]], p[n[0]+n[1]:]
}

// base is a request of the plainest kind.
func base() cgi.Request {
	return cgi.Request{
		Method: "GET", Target: "/a%2Fb/../server.php/info?x=%20y", Query: "x=%20y", Proto: "HTTP/1.1",
		Host:   "example.org",
		Remote: netip.MustParseAddrPort("192.0.2.7:41234"), Local: netip.MustParseAddrPort("192.0.2.1:8080"),
		Script: "/server.php", Root: "/srv/www", Software: "lwango",
	}
}

// lines makes "name=value" of pairs.
func lines(list [][2]string) (s []string) {
	for _, p := range list {
		s = append(s, p[0]+"="+p[1])
	}
	return s
}

// All of what a plain request has, in order.
func TestParamsComplete(t *testing.T) {
	r := base()
	r.Prefix, r.Info, r.Server = "/app", "/info", "www.example.org"
	r.Length = 12
	r.Fields = []cgi.Field{
		{"Host", "elsewhere"}, {"Content-Length", "99"}, {"Content-Type", "text/plain"}, {"Accept", "*/*"},
		{"Authorization", "Basic eDp5"}, {"X-Empty", ""}, {"X-Raw", "\xff\xc3\xbc\t"},
	}
	got, err := params(t, &r)
	want := []string{
		"GATEWAY_INTERFACE=CGI/1.1", "SERVER_SOFTWARE=lwango", "SERVER_PROTOCOL=HTTP/1.1", "REQUEST_METHOD=GET",
		"QUERY_STRING=x=%20y", "REQUEST_URI=/a%2Fb/../server.php/info?x=%20y", "DOCUMENT_URI=/app/server.php/info",
		"SCRIPT_NAME=/app/server.php", "SCRIPT_FILENAME=/srv/www/server.php", "DOCUMENT_ROOT=/srv/www",
		"PATH_INFO=/info",
		"PATH_TRANSLATED=/srv/www/info", "REDIRECT_STATUS=200", "REQUEST_SCHEME=http",
		"REMOTE_ADDR=192.0.2.7", "REMOTE_PORT=41234", "SERVER_ADDR=192.0.2.1", "SERVER_PORT=8080",
		"SERVER_NAME=www.example.org",
		"CONTENT_LENGTH=12", "CONTENT_TYPE=text/plain",
		"HTTP_HOST=example.org", "HTTP_ACCEPT=*/*", "HTTP_AUTHORIZATION=Basic eDp5", "HTTP_X_EMPTY=",
		"HTTP_X_RAW=\xff\xc3\xbc\t",
	}
	if !slices.Equal(lines(got), want) || err != nil {
		t.Errorf("%v\n got %q\nwant %q", err, lines(got), want)
	}
}

func TestParams(t *testing.T) {
	for _, tt := range []struct {
		why    string
		change func(r *cgi.Request)
		want   []string // that have to be there; "NAME" alone must not be
	}{
		{"nothing special", func(r *cgi.Request) {}, []string{"CONTENT_LENGTH=0", "CONTENT_TYPE", "HTTPS", "PATH_INFO",
			"PATH_TRANSLATED", "REMOTE_HOST", "REMOTE_IDENT", "REMOTE_USER", "AUTH_TYPE", "HTTP_X_FORWARDED_FOR",
			"HTTP_VIA"}},
		{"no query", func(r *cgi.Request) { r.Query, r.Target = "", "/" }, []string{"QUERY_STRING=", "REQUEST_URI=/"}},
		{"TLS", func(r *cgi.Request) { r.TLS = true },
			[]string{"HTTPS=on", "REQUEST_SCHEME=https", "SERVER_PORT=8080"}},

		{"absolute form", func(r *cgi.Request) { r.Target, r.Host = "http://b:81/p%2f?q", "b:81" },
			[]string{"REQUEST_URI=/p%2f?q", "HTTP_HOST=b:81", "SERVER_NAME=b", "SERVER_PORT=8080"}},
		{"absolute form, no path", func(r *cgi.Request) { r.Target = "HTTPS://b" }, []string{"REQUEST_URI=/"}},
		{"absolute form, query alone", func(r *cgi.Request) { r.Target = "http://b?q=://x/" },
			[]string{"REQUEST_URI=/?q=://x/"}},
		{"a path that looks like one", func(r *cgi.Request) { r.Target = "/http://b/" },
			[]string{"REQUEST_URI=/http://b/"}},
		{"asterisk", func(r *cgi.Request) { r.Target = "*" }, []string{"REQUEST_URI=*"}},

		{"large body", func(r *cgi.Request) { r.Length = 1 << 40 }, []string{"CONTENT_LENGTH=1099511627776"}},
		{"two types", func(r *cgi.Request) { r.Fields = []cgi.Field{{"content-type", "a/b"}, {"Content-Type", "c/d"}} },
			[]string{"CONTENT_TYPE=a/b", "HTTP_CONTENT_TYPE"}},
		{"empty type", func(r *cgi.Request) { r.Fields = []cgi.Field{{"Content-Type", ""}} },
			[]string{"CONTENT_TYPE="}},

		{"root folder", func(r *cgi.Request) { r.Root, r.Info = "/", "/i" },
			[]string{"DOCUMENT_ROOT=/", "SCRIPT_FILENAME=/server.php", "PATH_TRANSLATED=/i"}},
		{"slash at the end", func(r *cgi.Request) { r.Root = "/srv/www//" },
			[]string{"DOCUMENT_ROOT=/srv/www", "SCRIPT_FILENAME=/srv/www/server.php"}},

		// Addresses.
		{"IPv6", func(r *cgi.Request) {
			r.Remote, r.Local = netip.MustParseAddrPort("[fe80::1%eth0]:1"),
				netip.MustParseAddrPort("[2001:db8::1]:443")
		}, []string{"REMOTE_ADDR=fe80::1", "REMOTE_PORT=1", "SERVER_ADDR=2001:db8::1", "SERVER_PORT=443"}},
		{"IPv4 in IPv6", func(r *cgi.Request) { r.Remote = netip.MustParseAddrPort("[::ffff:192.0.2.9]:1") },
			[]string{"REMOTE_ADDR=192.0.2.9"}},
		{"UNIX socket", func(r *cgi.Request) { r.Remote, r.Local = netip.AddrPort{}, netip.AddrPort{} },
			[]string{"REMOTE_ADDR=unix:", "REMOTE_PORT", "SERVER_ADDR", "SERVER_PORT=80", "SERVER_NAME=example.org"}},
		{"UNIX socket, TLS", func(r *cgi.Request) { r.Local, r.TLS = netip.AddrPort{}, true },
			[]string{"SERVER_PORT=443"}},
		{"UNIX socket, port", func(r *cgi.Request) { r.Local, r.Host = netip.AddrPort{}, "a:81" },
			[]string{"SERVER_PORT=81", "SERVER_NAME=a", "HTTP_HOST=a:81"}},
		{"UNIX socket, no host", func(r *cgi.Request) { r.Local, r.Host = netip.AddrPort{}, "" },
			[]string{"SERVER_PORT=80", "SERVER_NAME=localhost", "HTTP_HOST"}},

		// Host and name.
		{"configured name", func(r *cgi.Request) { r.Server, r.Host = "s.example", "x:1" },
			[]string{"SERVER_NAME=s.example", "HTTP_HOST=x:1"}},
		{"IPv6 host", func(r *cgi.Request) { r.Host = "[::1]:81" },
			[]string{"SERVER_NAME=[::1]", "HTTP_HOST=[::1]:81"}},
		{"IPv6 host, no port", func(r *cgi.Request) { r.Host = "[::1]" }, []string{"SERVER_NAME=[::1]"}},
		{"empty port", func(r *cgi.Request) { r.Host = "a:" }, []string{"SERVER_NAME=a", "HTTP_HOST=a:"}},
		{"no host", func(r *cgi.Request) { r.Host = "" }, []string{"SERVER_NAME=192.0.2.1", "HTTP_HOST"}},
		{"no host, IPv6", func(r *cgi.Request) { r.Host, r.Local = "", netip.MustParseAddrPort("[::1]:80") },
			[]string{"SERVER_NAME=[::1]", "SERVER_ADDR=::1"}},
		{"empty host", func(r *cgi.Request) { r.Host, r.Fields = "", []cgi.Field{{"Host", ""}} },
			[]string{"HTTP_HOST="}},
		{"authority beats Host", func(r *cgi.Request) { r.Fields = []cgi.Field{{"HOST", "other"}} },
			[]string{"HTTP_HOST=example.org"}},

		// The configuration wins, whatever case the client writes.
		{"configured", func(r *cgi.Request) {
			r.Fields = []cgi.Field{{"x-real-ip", "6.6.6.6"}, {"X-REAL-IP", "7"}, {"X-Other", "o"}}
			r.Params = []cgi.Field{{"APP_ENV", "prod"}, {"HTTP_X_REAL_IP", "1.1.1.1"}, {"SERVER_NAME", "n"},
				{"HTTPS", "on"},
				{"CONTENT_TYPE", ""}, {"HTTP_HOST", "h"}, {"REQUEST_URI", "/u"}, {"REMOTE_ADDR", "r"}}
		}, []string{"APP_ENV=prod", "HTTP_X_REAL_IP=1.1.1.1", "SERVER_NAME=n", "HTTPS=on", "CONTENT_TYPE=",
			"HTTP_HOST=h",
			"REQUEST_URI=/u", "REMOTE_ADDR=r", "HTTP_X_OTHER=o"}},
	} {
		r := base()
		tt.change(&r)
		list, err := params(t, &r)
		if err != nil {
			t.Errorf("%s: %v", tt.why, err)
		}
		got := make(map[string]string)
		for _, p := range list {
			if _, ok := got[p[0]]; ok {
				t.Errorf("%s: %s is there twice", tt.why, p[0])
			}
			got[p[0]] = p[1]
		}
		for _, w := range tt.want {
			name, value, there := strings.Cut(w, "=")
			if v, ok := got[name]; ok != there || v != value {
				t.Errorf("%s: %s is %q, %v, want %s", tt.why, name, v, ok, w)
			}
		}
	}
}

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
		{"X_Forwarded_For: 6.6.6.6\nX-Forwarded-For: 1.1.1.1\nX.Forwarded.For: 7", "X_FORWARDED_FOR=1.1.1.1", false},
		{"X_A: 1\nX+B: 2\nX~: 3\n: 4\n\xc3\xbc: 5\nX A: 6\nX\x00: 7\n_: 8", "", false},
		{"X_A: 1\nX-A: 2\nX.A: 3\nContent_Length: 4\nContent_Type: 5\nTransfer_Encoding: 6\nKeep_Alive: 7\nPROXY_X: 8",
			"X_A=1, 2", true},
		// The connection is ours.
		{"Connection: keep-alive\nKeep-Alive: x\nTE: trailers\nTransfer-Encoding: chunked\nUpgrade: h2c\n" +
			"Trailer: y\nExpect: z",
			"EXPECT=z", false},
		{"Connection: close, X-Hop,,\t,x-gone ,keep-alive\nX-Hop: 1\nX-GONE: 2\nX-Stays: 3\nX-Hop: 4", "X_STAYS=3",
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
			"SCRIPT_FILENAME=/etc/passwd\nPHP_VALUE=x\nREMOTE_ADDR=y\nHTTPS=on\nHTTP_HOST=z", false},
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
	r.Fields = fieldsOf("Connection: x-forwarded-for, X-Real-IP, X-Hop, X_Forwarded_For" + strings.Repeat(",X-Real-Ip", 20) +
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
			for i := range n {
				r.Fields = append(r.Fields, cgi.Field{Name: name(i), Value: "v"})
			}
			return func() time.Duration {
				begin := time.Now()
				if _, err := params(t, &r); err != nil {
					t.Fatal(err)
				}
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

func fieldsOf(text string) (fields []cgi.Field) {
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

func TestParamsRefused(t *testing.T) {
	many := strings.Repeat("x,", 16)
	for _, tt := range []struct {
		why    string
		change func(r *cgi.Request)
		want   *wire.Error
	}{
		{"a length that is not known", func(r *cgi.Request) { r.Length = -1 }, cgi.ErrLength},
		{"NUL in the path", func(r *cgi.Request) { r.Script = "/a.jpg\x00.php" }, wire.ErrPairNUL},
		{"NUL in a field", func(r *cgi.Request) { r.Fields = []cgi.Field{{"A", "b\x00"}} }, wire.ErrPairNUL},
		{"NUL in a repeat", func(r *cgi.Request) { r.Fields = []cgi.Field{{"A", "b"}, {"a", "\x00"}} },
			wire.ErrPairNUL},
		{"NUL in the query", func(r *cgi.Request) { r.Query = "\x00" }, wire.ErrPairNUL},
		{"NUL in the configuration", func(r *cgi.Request) { r.Params = []cgi.Field{{"A", "\x00"}} }, wire.ErrPairNUL},
		{"a field larger than a record", func(r *cgi.Request) {
			r.Fields = []cgi.Field{{"A",
				strings.Repeat("x", 65535)}}
		},
			wire.ErrPairSize},
		{"options as many as can be", func(r *cgi.Request) { r.Fields = []cgi.Field{{"Connection", many}} }, nil},
		{"and one more", func(r *cgi.Request) { r.Fields = []cgi.Field{{"Connection", many + "y"}} }, cgi.ErrOptions},
		{"64 KiB and more in all", func(r *cgi.Request) {
			r.Fields = []cgi.Field{{"A", strings.Repeat("x", 50000)}, {"B", strings.Repeat("y", 50000)}}
		}, nil},
	} {
		r := base()
		tt.change(&r)
		_, err := params(t, &r)
		if (tt.want == nil) != (err == nil) || err != nil && err != error(tt.want) {
			t.Errorf("%s: %v", tt.why, err)
		}
	}
	if cgi.ErrLength.Status != 411 || cgi.ErrOptions.Status != 400 || wire.ErrPairNUL.Status != 400 {
		t.Error("statuses are wrong")
	}
}

// What net/http makes of the parameters.
func TestParamsPeer(t *testing.T) {
	r := base()
	r.TLS, r.Length, r.Method = true, 5, "POST"
	r.Fields = []cgi.Field{{"Cookie", "a=1"}, {"Cookie", "b=2"}, {"X-A", "1"}, {"X-A", "2"},
		{"Content-Type", "text/plain"}}
	list, err := params(t, &r)
	if err != nil {
		t.Fatal(err)
	}
	env := make(map[string]string)
	for _, p := range list {
		env[p[0]] = p[1]
	}
	req, err := stdcgi.RequestFromMap(env)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(req.Method, req.URL, req.Proto, req.Host, req.ContentLength, req.TLS != nil, req.RemoteAddr,
		req.Cookies(),
		req.Header["X-A"], req.Header["Content-Type"])
	want := "POSThttps://example.org/a%2Fb/../server.php/info?x=%20yHTTP/1.1example.org5 true" +
		"192.0.2.7:41234[a=1 b=2][1, 2][text/plain]"
	if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

func FuzzFields(f *testing.F) {
	for _, s := range []string{
		"A: 1\nB: x\na: 2", "Cookie: a\nCookie: b", "Connection: x, y\nX: 1\nY: 2", "Proxy: a\nX_Y: b\nX-Y: c",
		"Content_Type: a",
		"Connection: " + strings.Repeat("x,", 20),
	} {
		f.Add(s, true, "HTTP_X_Y")
		f.Add(s, false, "")
	}
	f.Fuzz(func(t *testing.T, text string, underscores bool, configured string) {
		r := base()
		r.Host, r.Underscores, r.Fields = "", underscores, fieldsOf(text)
		if configured != "" {
			r.Params = []cgi.Field{{Name: configured, Value: "c"}}
		}
		list, err := params(t, &r)
		if err != nil {
			if !slices.Contains([]error{wire.ErrPairNUL, wire.ErrPairSize, cgi.ErrOptions}, err) {
				t.Fatal(err)
			}
			return
		}

		// The slow way: all that may be sent, by name.
		drop := strings.Fields("PROXY CONNECTION KEEP_ALIVE TE TRAILER TRANSFER_ENCODING UPGRADE " +
			"CONTENT_LENGTH CONTENT_TYPE HOST")
		for _, f := range r.Fields {
			if strings.EqualFold(f.Name, "connection") {
				for o := range strings.SplitSeq(f.Value, ",") {
					if o = strings.Trim(o, " \t"); o == "" || o[0] < 0x80 && o[len(o)-1] < 0x80 {
						drop = append(drop, upperASCII(o))
					}
				}
			}
		}
		want := make(map[string]string)
		for _, f := range r.Fields {
			name := upperASCII(f.Name)
			ok := f.Name != "" && !strings.HasPrefix(name, "PROXY_") && !slices.Contains(drop, name)
			for _, c := range []byte(f.Name) {
				ok = ok && (c == '-' || c == '_' && underscores || '0' <= c && c <= '9' || 'a' <= c|32 && c|32 <= 'z')
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
		for _, f := range r.Fields {
			if strings.EqualFold(f.Name, "host") {
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

// browser is a request as browsers send it.
func browser() cgi.Request {
	r := base()
	r.Fields = fieldsOf("Host: example.org\nConnection: keep-alive\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8\n" +
		"Accept-Encoding: gzip, deflate, br\nAccept-Language: en-US,en;q=0.9\nReferer: https://www.example.org/\n" +
		"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark")
	r.Params = []cgi.Field{{Name: "APP_ENV", Value: "prod"}}
	return r
}

func TestParamsAllocations(t *testing.T) {
	r := browser()
	r.Fields = append(r.Fields, r.Fields...) // repeats
	buf := make([]byte, 0, 8192)
	if n := testing.AllocsPerRun(100, func() {
		var h wire.Head
		h.Begin(buf, true)
		r.AppendTo(&h)
		if _, err := h.Finish(); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkParams(b *testing.B) {
	r := browser()
	buf := make([]byte, 0, 8192)
	b.ReportAllocs()
	for b.Loop() {
		var h wire.Head
		h.Begin(buf, true)
		r.AppendTo(&h)
		if _, err := h.Finish(); err != nil {
			b.Fatal(err)
		}
	}
}
