package placeholder_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

// tables are maps that need each other.
var tables = []placeholder.Settings{
	{Name: "backend", From: "{host}", Default: "none", Values: map[string]string{
		"a.test": "x", "*.b.test": "y", "*.c.b.test": "z", "www.*": "{scheme}", "q.test": ""},
		Regexps: []placeholder.Regexp{{Regexp: `^(\w+)\.(?P<top>d)$`, Value: "{top}-{1}-{method}"},
			{Regexp: `d$`, Value: "second"}}},
	{Name: "net", Default: "out", Networks: map[string]string{"127.0.0.0/8": "in",
		"127.0.0.1": "self", "unix:": "local"}},
	{Name: "of_field", From: "{field.X}", Default: "no net", Networks: map[string]string{
		"10.0.0.0/8": "ten", "2001:db8::/32": "doc"}},
	{Name: "half", From: "{field.X}", Split: map[string]float64{"a": 50}, Default: "b"},
	{Name: "both", From: "{backend}/{net}", Default: "?", Values: map[string]string{
		"x/self": "{backend} is {half}"}},
	{Name: "new", From: "{uri}", Values: map[string]string{"/old": "/new?a=b",
		"/away": "https://other.test/", "/none": ""},
		Regexps: []placeholder.Regexp{{Regexp: `^/u/([^?]*)`, Value: "/user/{1}"},
			{Regexp: "^/q/([^/]*)", Value: "/find?q={1}"}, {Regexp: "^/all/(.*)", Value: "/x/{1}"},
			{Regexp: "^/half/(..)", Value: "/x/{1}"}},
		Default: "/same"},
}

func maps(t testing.TB) *placeholder.Maps { return must.Get(placeholder.NewMaps(tables, nil))(t) }

// TestMaps: which value a map has for a request.
func TestMaps(t *testing.T) {
	texts := maps(t)
	s := server.Start(t, modes.Direct, conn.Config{
		Handler: func(req *conn.Request, resp *conn.Response) int {
			resp.Write(placeholder.Append(nil, req,
				must.Get(texts.Parse(req.Header().Get("Text")))(t)))
			return 200
		}})
	for _, tt := range []struct{ host, x, text, want string }{
		{"a.test", "", "<{backend}>", "<x>"},
		{"A.Test:81", "", "{backend}{backend}", "xx"},
		{"1.b.test", "", "{backend}", "y"},
		{"1.c.b.test", "", "{backend}", "z"}, // the longest
		{"b.test", "", "{backend}", "none"},
		{"www.x", "", "{backend}", "http"},
		{"q.test", "", "<{backend}>", "<>"},
		{"abc.d", "", "{backend}", "d-abc-GET"},
		{"a-c.d", "", "{backend}", "second"}, // expressions in their order
		{"h", "", "{net}", "self"},
		{"h", "10.2.3.4", "{of_field}", "ten"},
		{"h", "2001:db8::1", "{of_field}", "doc"},
		{"h", "11.1.1.1", "{of_field}", "no net"},
		{"h", "evil\t\xff", "{of_field}", "no net"},
		{"a.test", "1", "{both}", "x is a"},
		{"b.test", "1", "{both}", "?"},
	} {
		got := s.Dial().Do("GET", "GET / HTTP/1.1\r\nHost: "+tt.host+"\r\nX: "+tt.x+"\r\nText: "+
			tt.text+"\r\n\r\n")
		if got.Text != tt.want {
			t.Errorf("%s of %s, %s: %q, want %q", tt.text, tt.host, tt.x, got.Text, tt.want)
		}
	}
	c, count := s.Dial(), map[string]int{}
	for i := range 200 {
		got := c.Do("GET", fmt.Sprintf("GET / HTTP/1.1\r\nHost: h\r\nX: %d\r\nText: {half}\r\n\r\n", i))
		count[got.Text]++
	}
	if count["a"] < 70 || count["b"] < 70 || count["a"]+count["b"] != 200 {
		t.Errorf("split into %v", count)
	}
}

// TestAddresses: where maps are in an address, and that no part of a request names the server.
func TestAddresses(t *testing.T) {
	texts := maps(t)
	s := server.Start(t, modes.Direct, conn.Config{
		Handler: func(req *conn.Request, resp *conn.Response) int {
			to := must.Get(texts.ParseAddress(req.Header().Get("Text"), nil))(t)
			from := placeholder.Source(req)
			found := to.Choose(req.Layer(), from)
			if found == nil {
				return http.StatusNotFound
			}
			resp.Header().Set("Location", found.Expand(from))
			return http.StatusFound
		}})
	for _, tt := range []struct{ target, text, want string }{
		{"/old", "{new}", "/new?a=b"},
		{"/away", "{new}", "https://other.test/"},
		{"/none", "{new}", ""},
		{"/u//evil.test", "{new}", "/user/evil.test"},
		{"/u/a%20b%2Fc?x", "{new}", "/user/a%20b%2Fc"},
		{"/q/a%20b%26/c", "{new}", "/find?q=a%20b%26"},
		{"/all/a%20b?x=%25|", "{new}", "/x/a%20b%3Fx=%25%7C"},
		{"/half/%C3%A9", "{new}", "/x/%25C"},
		{"/u/a", "/login?to={new}", "/login?to=/user/a"},
		{"/x?q=%2F%2Fevil.test%0d", "/{query.q}", "/evil.test%0D"},
		{"/x?q=a%26b", "/y?q={query.q}&h={field.text}",
			"/y?q=a%26b&h=/y%3Fq%3D%7Bquery.q%7D%26h%3D%7Bfield.text%7D"},
		{"/x", "{scheme}://a.test{path}", "http://a.test/x"},
	} {
		got := s.Dial().Do("GET", "GET "+tt.target+" HTTP/1.1\r\nHost: h\r\nText: "+tt.text+"\r\n\r\n")
		if at := got.Header.Get("Location"); at != tt.want {
			t.Errorf("%s of %s: %q, want %q", tt.text, tt.target, at, tt.want)
		}
	}
	for text, want := range map[string]string{
		"https://{query.x}/":     "the path of a request would name the server",
		"https://{field.x}{new}": "the path of a request would name the server",
		"{backend}":              `with "none" for {backend}: "none": expected http://..., https://...`,
		"{query.x}://a/":         "a request would name the scheme",
	} {
		if _, err := texts.ParseAddress(text, nil); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestSameAddress: sites with the same text share what is made of the values of its maps.
func TestSameAddress(t *testing.T) {
	texts := maps(t)
	parse := func(text string, groups ...string) *placeholder.Address {
		return must.Get(texts.ParseAddress(text, groups))(t)
	}
	a := parse("{new}", "g")
	if parse("{new}", "g") != a || parse("{new}") == a || parse("/{new}", "g") == a ||
		must.Get(texts.ParseTarget("/x", []string{"g"}))(t) == parse("/x", "g") {
		t.Error("one stands for another")
	}
}

// TestMapErrors: what is wrong is said at the start.
func TestMapErrors(t *testing.T) {
	one := func(change func(s *placeholder.Settings)) []placeholder.Settings {
		s := placeholder.Settings{Name: "a", From: "{host}", Values: map[string]string{"x": "y"}}
		change(&s)
		return []placeholder.Settings{s}
	}
	deep := []placeholder.Settings{{Name: "m0", From: "{host}", Values: map[string]string{"x": ""}}}
	for i := 1; i < 8; i++ {
		before := fmt.Sprintf("{m%d}", i-1)
		deep = append(deep, placeholder.Settings{Name: "m" + strconv.Itoa(i), From: before + before,
			Values: map[string]string{"x": ""}})
	}
	for want, all := range map[string][]placeholder.Settings{
		"map 1: name: missing": one(func(s *placeholder.Settings) {
			s.Name = ""
		}),
		`map 1: name: expected a word`: one(func(s *placeholder.Settings) {
			s.Name = "a.b"
		}),
		"map 1: name: {uri} is a placeholder already": one(func(s *placeholder.Settings) {
			s.Name = "uri"
		}),
		"map 1: name: {cookie} is a placeholder already": one(func(s *placeholder.Settings) {
			s.Name = "cookie"
		}),
		"map 1: name: {status} is a placeholder already": one(func(s *placeholder.Settings) {
			s.Name = "status"
		}),
		"map 2: name: another map has the name a": append(one(func(*placeholder.Settings) {}),
			one(func(*placeholder.Settings) {})...),
		"map 1: from: missing": one(func(s *placeholder.Settings) {
			s.From = ""
		}),
		`map 1: from: "x": expected a text with`: one(func(s *placeholder.Settings) {
			s.From = "x"
		}),
		`map 1: from: "{no}": unknown placeholder {no}`: one(func(s *placeholder.Settings) {
			s.From = "{no}"
		}),
		"map 1: values: missing": one(func(s *placeholder.Settings) {
			s.Values = nil
		}),
		"map 1: : expected values and regexps, or": one(func(s *placeholder.Settings) {
			s.Split = map[string]float64{"a": 1}
		}),
		"map 1: values.X: {host} is looked up in small": one(func(s *placeholder.Settings) {
			s.Values = map[string]string{"X": ""}
		}),
		"map 1: values.~x: an expression stands in": one(func(s *placeholder.Settings) {
			s.Values = map[string]string{"~x": ""}
		}),
		"map 1: values.*: the value of all other texts": one(func(s *placeholder.Settings) {
			s.Values = map[string]string{"*": ""}
		}),
		"map 1: values.a*b: expected one star": one(func(s *placeholder.Settings) {
			s.Values = map[string]string{"a*b": ""}
		}),
		"map 1: default: control characters": one(func(s *placeholder.Settings) {
			s.Default = "a\r\nb"
		}),
		"map 1: regexps: missing closing )": one(func(s *placeholder.Settings) {
			s.Regexps = []placeholder.Regexp{{Regexp: "("}}
		}),
		"map 1: regexps: an expression has at most 16384": one(func(s *placeholder.Settings) {
			s.Regexps = []placeholder.Regexp{{Regexp: strings.Repeat("a", 64<<10)}}
		}),
		`map 1: regexps: "{1}{2}": {2} is no group`: one(func(s *placeholder.Settings) {
			s.Regexps = []placeholder.Regexp{{Regexp: "(a)", Value: "{1}{2}"}}
		}),
		"map 1: networks: \"10.1.0.0/8\" is no network": one(func(s *placeholder.Settings) {
			s.Values, s.Networks = nil, map[string]string{"10.1.0.0/8": ""}
		}),
		"map 1: split: the parts are 110 percent together": one(func(s *placeholder.Settings) {
			s.Values, s.Split = nil, map[string]float64{"a": 60, "b": 50}
		}),
		"map 1: name: the map needs itself: a needs a": one(func(s *placeholder.Settings) {
			s.From = "{a}"
		}),
		"map 1: name: the map needs itself: a needs b needs c needs a": append(
			one(func(s *placeholder.Settings) { s.From = "{b}" }),
			placeholder.Settings{Name: "b", From: "{host}", Values: map[string]string{"x": "{c}"}},
			placeholder.Settings{Name: "c", From: "{uri}", Values: map[string]string{}, Default: "{a}"}),
		"map 7: name: a value needs more than 64 lookups": deep,
	} {
		_, err := placeholder.NewMaps(all, []string{"status"})
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// lookup is a request for a map of many texts, two placeholders and a literal text.
func lookup(t testing.TB) (text placeholder.Text, texts *placeholder.Maps) {
	values := map[string]string{"a.test": "one"}
	for i := range 100000 {
		values[fmt.Sprintf("%d.test", i)] = "other"
	}
	texts = must.Get(placeholder.NewMaps([]placeholder.Settings{
		{Name: "backend", From: "{host}", Values: values}}, nil))(t)
	return must.Get(texts.Parse("{backend} of {address} {method}"))(t), texts
}

// within calls f on the thread of a request.
func within(t testing.TB, f func(req *conn.Request)) {
	s := server.Start(t, modes.Direct, conn.Config{
		Handler: func(req *conn.Request, resp *conn.Response) int { f(req); return 200 }})
	s.Exchange("GET /a/b?c=d HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
}

// TestMapIsCheap: a value costs no memory.
func TestMapIsCheap(t *testing.T) {
	text, _ := lookup(t)
	within(t, func(req *conn.Request) {
		var space [128]byte
		if got := string(placeholder.Append(space[:0], req, text)); got != "one of 127.0.0.1 GET" {
			t.Error(got)
		}
		if n := testing.AllocsPerRun(1000, func() {
			var space [128]byte
			if out := placeholder.Append(space[:0], req, text); len(out) == 0 {
				t.Error("nothing")
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func BenchmarkMap(b *testing.B) {
	text, _ := lookup(b)
	within(b, func(req *conn.Request) {
		b.ReportAllocs()
		for b.Loop() {
			var space [128]byte
			if out := placeholder.Append(space[:0], req, text); len(out) == 0 {
				b.Error("nothing")
			}
		}
	})
}
