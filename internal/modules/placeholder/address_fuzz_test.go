package placeholder_test

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/template"
)

// asked is a request that is only thought of, with a field of any name.
type asked struct{ raw, query, field string }

func (a *asked) Method() string              { return "GET" }
func (a *asked) SentPathView() []byte        { return http1.Sent([]byte(a.raw)) }
func (a *asked) QueryView() []byte           { return []byte(a.query) }
func (a *asked) AppendQuery(b []byte) []byte { return append(append(b, '?'), a.query...) }
func (a *asked) HostView() []byte            { return []byte("asked.example:81") }
func (a *asked) RemoteAddr() netip.AddrPort  { return netip.AddrPort{} }
func (a *asked) Secure() bool                { return len(a.query)%2 == 0 }
func (a *asked) Prefix() string              { return "/" }
func (a *asked) HeaderViewFrom(_ string, from int) ([]byte, int) {
	if from > 0 {
		return nil, -1
	}
	return []byte(a.field), 1
}

// FuzzAddress: whatever a client sends, it cannot name the server that an address leads to, and no
// control character gets into the address.
func FuzzAddress(f *testing.F) {
	texts := maps(f)
	addresses := map[string][]string{ // with the servers that they may lead to
		"{new}": {"", "other.test"}, "/{query.q}": {""}, "/{field.x}{path}{query}": {""},
		"{path}{cookie.q}": {""}, "{uri}": {""}, "/{rest}/{backend}": {""}, "/{backend}{uri}": {""},
		"{scheme}://{host}{path}?a={query.q}&b={field.x}{query}": {"asked.example"},
		"https://a.test/{field.x}{query.q}{cookie.q}{rest}":      {"a.test"},
	}
	for _, s := range []string{"//evil.test", "/\\evil.test", "q=//evil.test", "q=%2f%5c%0d%0a@evil.test",
		"https://evil.test/", ".evil.test", "@evil.test", "q=evil.test; q=x", "/u//evil.test"} {
		f.Add("/"+s, s, s)
		f.Add("/u/"+s, "", "")
		f.Add("/all/"+s, `\`+s, "")
	}
	f.Fuzz(func(t *testing.T, raw, query, field string) {
		clean, err := http1.CleanPath(nil, []byte(raw))
		if err != nil || !strings.HasPrefix(raw, "/") || !http1.ValidFieldValue(field) ||
			strings.ContainsAny(raw, "?# ") {
			return
		}
		for _, c := range []byte(raw + query) {
			if c <= ' ' || c >= 0x7f || c == '#' {
				return // not let through by the parser
			}
		}
		q := &asked{raw, query, field}
		sent := string(q.SentPathView())
		for text, servers := range addresses {
			s := &template.Source{Host: "asked.example:81", Path: template.Part{Text: string(clean),
				Sent: sent}, Below: template.Part{Text: string(clean), Sent: sent}, Query: query, Asks: true}
			to := must.Get(texts.ParseAddress(text, nil))(t).Choose(q, s)
			if to == nil {
				continue
			}
			location := to.Expand(s)
			u, err := url.Parse(location)
			if strings.HasPrefix(location, "//") || strings.ContainsAny(location, "\r\n\x00\\ ") || err == nil &&
				(!slices.Contains(servers, u.Host) || u.User != nil) {
				t.Errorf("%s for %q, %q, %q: %q, %v", text, raw, query, field, location, err)
			}
		}
	})
}
