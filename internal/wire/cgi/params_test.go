package cgi_test

import (
	"encoding/binary"
	"fmt"
	stdcgi "net/http/cgi"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// params builds the parameters, as FastCGI has them, and reads them again, by a reader that shares
// nothing with the package.
func params(t testing.TB, r *cgi.Request) (list [][2]string, err error) {
	r.Fixed = cgi.Fix(cgi.FastCGI, r.Root, "lwango", r.Params)
	var v cgi.Vars
	v.Begin(nil, cgi.FastCGI, func(b []byte, from int) []byte {
		if len(b)-from > cgi.MaxVars {
			t.Errorf("a record of %d bytes", len(b)-from)
		}
		return b
	})
	r.AppendTo(&v)
	b, _, err := v.Finish()
	if err != nil {
		return nil, err
	}
	for len(b) > 0 {
		var name, value []byte
		name, value, b = cutPair(t, b)
		list = append(list, [2]string{string(name), string(value)})
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
		Method: "GET", Target: "/a%2Fb//server.php/info?x=%20y", Query: "x=%20y",
		Proto:  "HTTP/1.1",
		Host:   "example.org",
		Remote: netip.MustParseAddrPort("192.0.2.7:41234"),
		Local:  netip.MustParseAddrPort("192.0.2.1:8080"),
		Script: "/server.php", Root: "/srv/www",
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
	r.User, r.AuthType = "ann", "Basic"
	r.Length = 12
	r.Fields = cgi.List{
		{"Host", "elsewhere"}, {"Content-Length", "99"}, {"Content-Type", "text/plain"},
		{"Accept", "*/*"},
		{"Authorization", "Basic eDp5"}, {"X-Empty", ""}, {"X-Raw", "\xff\xc3\xbc\t"},
	}
	got, err := params(t, &r)
	want := []string{
		"GATEWAY_INTERFACE=CGI/1.1", "SERVER_SOFTWARE=lwango", "DOCUMENT_ROOT=/srv/www",
		"REDIRECT_STATUS=200",
		"SERVER_PROTOCOL=HTTP/1.1", "REQUEST_METHOD=GET",
		"QUERY_STRING=x=%20y", "REQUEST_URI=/a%2Fb//server.php/info?x=%20y",
		"DOCUMENT_URI=/app/server.php/info",
		"SCRIPT_NAME=/app/server.php", "SCRIPT_FILENAME=/srv/www/server.php",
		"PATH_INFO=/info",
		"PATH_TRANSLATED=/srv/www/info", "REQUEST_SCHEME=http",
		"REMOTE_USER=ann", "AUTH_TYPE=Basic",
		"REMOTE_ADDR=192.0.2.7", "REMOTE_PORT=41234", "SERVER_ADDR=192.0.2.1", "SERVER_PORT=8080",
		"SERVER_NAME=www.example.org",
		"CONTENT_LENGTH=12",
		"HTTP_HOST=example.org", "CONTENT_TYPE=text/plain", "HTTP_ACCEPT=*/*",
		"HTTP_AUTHORIZATION=Basic eDp5",
		"HTTP_X_EMPTY=",
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
		{"nothing special", func(r *cgi.Request) {}, []string{"CONTENT_LENGTH=0", "CONTENT_TYPE",
			"HTTPS", "PATH_INFO", "PATH_TRANSLATED", "REMOTE_HOST", "REMOTE_IDENT", "REMOTE_USER",
			"AUTH_TYPE", "HTTP_X_FORWARDED_FOR",
			"HTTP_VIA"}},
		{"no query", func(r *cgi.Request) { r.Query, r.Target = "", "/" },
			[]string{"QUERY_STRING=", "REQUEST_URI=/"}},
		{"TLS", func(r *cgi.Request) { r.TLS = true },
			[]string{"HTTPS=on", "REQUEST_SCHEME=https", "SERVER_PORT=8080"}},

		{"a client's certificate", func(r *cgi.Request) {
			r.TLS, r.Client = true, &cgi.Certificate{Verify: "SUCCESS", Subject: "CN=a,O=b", Issuer: "CN=c",
				Serial: "AB", Fingerprint: "0f"}
		}, []string{"SSL_CLIENT_VERIFY=SUCCESS", "SSL_CLIENT_S_DN=CN=a,O=b", "SSL_CLIENT_I_DN=CN=c",
			"SSL_CLIENT_M_SERIAL=AB", "SSL_CLIENT_FINGERPRINT=0f"}},
		{"none, where it was asked for", func(r *cgi.Request) {
			r.TLS, r.Client = true, &cgi.Certificate{Verify: "NONE"}
		}, []string{"SSL_CLIENT_VERIFY=NONE", "SSL_CLIENT_S_DN", "SSL_CLIENT_I_DN", "SSL_CLIENT_M_SERIAL",
			"SSL_CLIENT_FINGERPRINT"}},
		{"none, where it was not asked for", func(r *cgi.Request) { r.TLS = true },
			[]string{"SSL_CLIENT_VERIFY"}},

		{"asterisk", func(r *cgi.Request) { r.Target = "*" }, []string{"REQUEST_URI=*"}},

		{"large body", func(r *cgi.Request) { r.Length = 1 << 40 },
			[]string{"CONTENT_LENGTH=1099511627776"}},
		{"two types", func(r *cgi.Request) {
			r.Fields = cgi.List{{"content-type", "a/b"}, {"Content-Type", "c/d"}}
		},
			[]string{"CONTENT_TYPE=a/b", "HTTP_CONTENT_TYPE"}},
		{"empty type", func(r *cgi.Request) { r.Fields = cgi.List{{"Content-Type", ""}} },
			[]string{"CONTENT_TYPE="}},

		{"root folder", func(r *cgi.Request) { r.Root, r.Info = "/", "/i" },
			[]string{"DOCUMENT_ROOT=/", "SCRIPT_FILENAME=/server.php", "PATH_TRANSLATED=/i"}},
		{"slash at the end", func(r *cgi.Request) { r.Root = "/srv/www//" },
			[]string{"DOCUMENT_ROOT=/srv/www", "SCRIPT_FILENAME=/srv/www/server.php"}},

		// Addresses.
		{"IPv6", func(r *cgi.Request) {
			r.Remote, r.Local = netip.MustParseAddrPort("[fe80::1%eth0]:1"),
				netip.MustParseAddrPort("[2001:db8::1]:443")
		}, []string{"REMOTE_ADDR=fe80::1", "REMOTE_PORT=1", "SERVER_ADDR=2001:db8::1",
			"SERVER_PORT=443"}},
		{"IPv4 in IPv6", func(r *cgi.Request) {
			r.Remote = netip.MustParseAddrPort("[::ffff:192.0.2.9]:1")
		},
			[]string{"REMOTE_ADDR=192.0.2.9"}},
		{"UNIX socket", func(r *cgi.Request) {
			r.Remote, r.Local = netip.AddrPort{}, netip.AddrPort{}
		},
			[]string{"REMOTE_ADDR=unix:", "REMOTE_PORT", "SERVER_ADDR", "SERVER_PORT=80",
				"SERVER_NAME=example.org"}},
		{"UNIX socket, TLS", func(r *cgi.Request) { r.Local, r.TLS = netip.AddrPort{}, true },
			[]string{"SERVER_PORT=443"}},
		{"UNIX socket, port", func(r *cgi.Request) { r.Local, r.Host = netip.AddrPort{}, "a:81" },
			[]string{"SERVER_PORT=81", "SERVER_NAME=a", "HTTP_HOST=a:81"}},
		{"UNIX socket, no host", func(r *cgi.Request) { r.Local, r.Host = netip.AddrPort{}, "" },
			[]string{"SERVER_PORT=80", "SERVER_NAME=localhost", "HTTP_HOST"}},
		{"behind a proxy", func(r *cgi.Request) { r.Proxied, r.TLS = true, true },
			[]string{"SERVER_ADDR=192.0.2.1", "SERVER_PORT=443", "HTTPS=on"}},
		{"behind a proxy, port", func(r *cgi.Request) { r.Proxied, r.Host = true, "a:81" },
			[]string{"SERVER_ADDR=192.0.2.1", "SERVER_PORT=81"}},

		// Host and name.
		{"configured name", func(r *cgi.Request) { r.Server, r.Host = "s.example", "x:1" },
			[]string{"SERVER_NAME=s.example", "HTTP_HOST=x:1"}},
		{"IPv6 host", func(r *cgi.Request) { r.Host = "[::1]:81" },
			[]string{"SERVER_NAME=[::1]", "HTTP_HOST=[::1]:81"}},
		{"IPv6 host, no port", func(r *cgi.Request) { r.Host = "[::1]" },
			[]string{"SERVER_NAME=[::1]"}},
		{"empty port", func(r *cgi.Request) { r.Host = "a:" },
			[]string{"SERVER_NAME=a", "HTTP_HOST=a:"}},
		{"no host", func(r *cgi.Request) { r.Host = "" }, []string{"SERVER_NAME=192.0.2.1",
			"HTTP_HOST"}},
		{"no host, IPv6", func(r *cgi.Request) {
			r.Host, r.Local = "", netip.MustParseAddrPort("[::1]:80")
		},
			[]string{"SERVER_NAME=[::1]", "SERVER_ADDR=::1"}},
		{"empty host", func(r *cgi.Request) { r.Host, r.Fields = "", cgi.List{{"Host", ""}} },
			[]string{"HTTP_HOST="}},
		{"authority beats Host", func(r *cgi.Request) { r.Fields = cgi.List{{"HOST", "other"}} },
			[]string{"HTTP_HOST=example.org"}},

		// The configuration wins, whatever case the client writes.
		{"configured", func(r *cgi.Request) {
			r.Fields = cgi.List{{"x-real-ip", "6.6.6.6"}, {"X-REAL-IP", "7"}, {"X-Other", "o"}}
			r.Params = []cgi.Field{{"APP_ENV", "prod"}, {"HTTP_X_REAL_IP", "1.1.1.1"},
				{"SERVER_NAME", "n"}, {"HTTPS", "on"},
				{"CONTENT_TYPE", ""}, {"HTTP_HOST", "h"}, {"REQUEST_URI", "/u"},
				{"REMOTE_ADDR", "r"}}
		}, []string{"APP_ENV=prod", "HTTP_X_REAL_IP=1.1.1.1", "SERVER_NAME=n", "HTTPS=on",
			"CONTENT_TYPE=",
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

func TestParamsRefused(t *testing.T) {
	many := strings.Repeat("x,", 16)
	for _, tt := range []struct {
		why    string
		change func(r *cgi.Request)
		want   *cgi.Error
	}{
		{"a length that is not known", func(r *cgi.Request) { r.Length = -1 }, cgi.ErrLength},
		{"NUL in the path", func(r *cgi.Request) { r.Script = "/a.jpg\x00.php" }, cgi.ErrPairNUL},
		{"NUL in a field", func(r *cgi.Request) { r.Fields = cgi.List{{"A", "b\x00"}} },
			cgi.ErrPairNUL},
		{"NUL in a repeat", func(r *cgi.Request) {
			r.Fields = cgi.List{{"A", "b"}, {"a", "\x00"}}
		},
			cgi.ErrPairNUL},
		{"NUL in the query", func(r *cgi.Request) { r.Query = "\x00" }, cgi.ErrPairNUL},
		{"NUL in the configuration", func(r *cgi.Request) { r.Params = []cgi.Field{{"A", "\x00"}} },
			cgi.ErrPairNUL},
		{"a field larger than a record", func(r *cgi.Request) {
			r.Fields = cgi.List{{"A",
				strings.Repeat("x", 65535)}}
		},
			cgi.ErrPairSize},
		{"options as many as can be", func(r *cgi.Request) {
			r.Fields = cgi.List{{"Connection", many}}
		}, nil},
		{"and one more", func(r *cgi.Request) {
			r.Fields = cgi.List{{"Connection", many + "y"}}
		}, cgi.ErrOptions},
		{"64 KiB and more in all", func(r *cgi.Request) {
			r.Fields = cgi.List{{"A", strings.Repeat("x", 50000)},
				{"B", strings.Repeat("y", 50000)}}
		}, nil},
	} {
		r := base()
		tt.change(&r)
		_, err := params(t, &r)
		if (tt.want == nil) != (err == nil) || err != nil && err != error(tt.want) {
			t.Errorf("%s: %v", tt.why, err)
		}
	}
	if cgi.ErrLength.Status != 411 || cgi.ErrOptions.Status != 400 ||
		cgi.ErrPairNUL.Status != 400 {
		t.Error("statuses are wrong")
	}
}

// What net/http makes of the parameters.
func TestParamsPeer(t *testing.T) {
	r := base()
	r.TLS, r.Length, r.Method = true, 5, "POST"
	r.Fields = cgi.List{{"Cookie", "a=1"}, {"Cookie", "b=2"}, {"X-A", "1"}, {"X-A", "2"},
		{"Content-Type", "text/plain"}}
	list := must.Get(params(t, &r))(t)
	env := make(map[string]string)
	for _, p := range list {
		env[p[0]] = p[1]
	}
	req := must.Get(stdcgi.RequestFromMap(env))(t)
	got := fmt.Sprint(req.Method, req.URL, req.Proto, req.Host, req.ContentLength, req.TLS != nil,
		req.RemoteAddr, req.Cookies(),
		req.Header["X-A"], req.Header["Content-Type"])
	want := "POSThttps://example.org/a%2Fb//server.php/info?x=%20yHTTP/1.1example.org5 true" +
		"192.0.2.7:41234[a=1 b=2][1, 2][text/plain]"
	if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

// browser is a request as browsers send it.
func browser() cgi.Request {
	r := base()
	r.Fields = fieldsOf("Host: example.org\nConnection: keep-alive\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) " +
		"Chrome/124.0.0.0\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8\n" +
		"Accept-Encoding: gzip, deflate, br\nAccept-Language: en-US,en;q=0.9\n" +
		"Referer: https://www.example.org/\n" +
		"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark")
	r.Params = []cgi.Field{{Name: "APP_ENV", Value: "prod"}}
	r.Fixed = cgi.Fix(cgi.FastCGI, r.Root, "lwango", r.Params)
	return r
}

// TestParamsBeyondARecord: parameters of the configuration take as many records as they need, and
// what is wrong with one of them is found with the request.
func TestParamsBeyondARecord(t *testing.T) {
	r := base()
	for i := range 5 {
		r.Params = append(r.Params,
			cgi.Field{Name: fmt.Sprint("LONG_", i), Value: strings.Repeat("x", 30000+i)})
	}
	r.Params = append(r.Params, cgi.Field{Name: "SERVER_SOFTWARE", Value: "mine"})
	list := must.Get(params(t, &r))(t)
	for _, p := range r.Params {
		n := 0
		for _, got := range list {
			if got[0] == p.Name {
				n++
				if got[1] != p.Value {
					t.Errorf("%s: %.20q", p.Name, got[1])
				}
			}
		}
		if n != 1 {
			t.Errorf("%s: %d times", p.Name, n)
		}
	}
	for _, bad := range []cgi.Field{
		{Name: "A", Value: "\x00"}, {Name: "", Value: "x"}, {Name: "\x00", Value: ""},
		{Name: "A", Value: strings.Repeat("x", cgi.MaxVars)},
	} {
		r := base()
		r.Params = []cgi.Field{bad}
		if _, err := params(t, &r); err == nil {
			t.Errorf("%.20q", bad)
		}
	}
}

func TestParamsAllocations(t *testing.T) {
	r := browser()
	r.Fields = append(r.Fields.(cgi.List), r.Fields.(cgi.List)...) // repeats
	buf := make([]byte, 0, 8192)
	if n := testing.AllocsPerRun(100, func() {
		var v cgi.Vars
		v.Begin(buf, cgi.FastCGI, nil)
		r.AppendTo(&v)
		if _, _, err := v.Finish(); err != nil {
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
		var v cgi.Vars
		v.Begin(buf, cgi.FastCGI, nil)
		r.AppendTo(&v)
		if _, _, err := v.Finish(); err != nil {
			b.Fatal(err)
		}
	}
}
