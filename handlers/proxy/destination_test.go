package proxy_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestDestination: where MOVE and COPY lead is said to the upstream in its own addresses (RFC 4918
// section 10.3), and an address of this server that it does not have is refused.
func TestDestination(t *testing.T) { modes.Run(t, testDestination, modes.Direct, modes.HTTP2) }

func testDestination(t *testing.T, m modes.Mode) {
	lines := make(chan string, 1)
	o := start(t, func(p *originConn) {
		for head := p.head(); head != ""; head = p.head() {
			said := "none"
			for line := range strings.SplitSeq(head, "\r\n") {
				if name, value, _ := strings.Cut(line, ": "); strings.EqualFold(name, "Destination") {
					said = value
				}
			}
			lines <- said
			p.say(hello)
		}
	})
	const client = "http://test.example"
	strip := proxy.Paths{StripPrefix: true, MergeSlashes: true, MapBack: true}
	table := proxy.Paths{MergeSlashes: true, MapLocation: map[string]string{
		"http://app.internal:8080/dav/": "{scheme}://{host}/files/", "/own/": "/app/mine/",
		"~^/x(.*)$": "/app/{1}"}}
	for _, tt := range []struct {
		name, prefix, host string
		paths              proxy.Paths
		rows               [][2]string // "" for the second: 502
	}{
		{"strip", "/app", "client", strip, [][2]string{
			{client + "/app/b%2Fc/[d]%3B", client + "/b%2Fc/%5Bd%5D%3B"}, {"/app/b", "/b"},
			{client + "/app", client + "/"},
			{"https://test.example/app/b", client + "/b"}, // the upstream is asked by http
			{"//test.example/app/b", "//test.example/b"}, {client + ":80/app/b?x#y", client + ":80/b?x#y"},
			{client + "/app/x/../b", client + "/b"}, {"/app//b", "/b"}, {"/app%2Fb%2Fc", "/b/c"},
			// This server's, and not the route's.
			{client + "/other/b", ""}, {"/apple", ""}, {"/app/../other", ""}, {"/app/..%2Fother", ""},
			{"/../x", ""}, {"/app/%zz", ""},
			{client, ""},
			// Others', or no address.
			{"http://other.example/app/b", "http://other.example/app/b"},
			{"http://test.example:81/app/b", "http://test.example:81/app/b"},
			{"b", "b"},
		}},
		{"replace", "/app", "client",
			proxy.Paths{ReplacePrefix: "/v1", MergeSlashes: true, MapBack: true}, [][2]string{
				{client + "/app/b", client + "/v1/b"}, {"/app", "/v1"}, {"/v1/b", ""},
				// Other ways to say this server's name.
				{"http://TEST.example./v1/b", ""}, {"http://test.example:/v1/b", ""},
				{"http://test.example:080/v1/b", ""},
				{"http://x@test.example/v1/b", ""}, {"http:///v1/b", ""}, {"//x:y@test.example/v1/b", ""},
				{"http://test.example.:80/app/b", client + ".:80/v1/b"},
			}},
		// An address of the upstream leads to what the route has of it, or nowhere.
		{"replace, another host", "/app", "app.internal",
			proxy.Paths{ReplacePrefix: "/v1", MergeSlashes: true, MapBack: true}, [][2]string{
				{client + "/app/b", "http://app.internal/v1/b"},
				{"http://app.internal/v1/b", "http://app.internal/v1/b"},
				{"http://App.internal.:80/v2/b", "none"}, {"http://app.internal/v1/%2e%2e/v2", "none"},
				{"http://app.internal", "none"},
				{"http://app.internal:81/v2", "http://app.internal:81/v2"},
			}},
		{"another host", "/", "app.internal", proxy.Paths{MergeSlashes: true, MapBack: true}, [][2]string{
			{client + "/a/b", "http://app.internal/a/b"}, {"/a/./b", "/a/b"},
			{"http://app.internal/b", "http://app.internal/b"},
		}},
		{"as it is", "/app", "client", proxy.Paths{MergeSlashes: true, MapBack: true}, [][2]string{
			{client + "/other/../b", client + "/other/../b"},
			{"https://test.example/b", "https://test.example/b"},
		}},
		{"not mapped", "/app", "client", proxy.Paths{StripPrefix: true, MergeSlashes: true}, [][2]string{
			{client + "/app/b", client + "/app/b"},
		}},
		{"a table", "/app", "client", table, [][2]string{
			{client + "/files/a%20b", "http://app.internal:8080/dav/a%20b"}, {"/app/mine/x", "/own/x"},
			{client + "/app/mine/x", client + "/own/x"},
			{client + "/app/mine/../z", client + "/app/mine/../z"}, {"/else", "/else"},
		}},
	} {
		f := serve(t, m, tt.prefix, []string{o.addr}, func(s *proxy.Settings) {
			s.Paths, s.Host = tt.paths, tt.host
		})
		for _, row := range tt.rows {
			a := f.Request("MOVE "+strings.TrimSuffix(tt.prefix, "/")+"/a",
				[]string{"Destination: " + row[0]}, "")
			if row[1] == "" {
				if a.StatusCode != 502 {
					t.Errorf("%s, %s: %d, the upstream gets %s", tt.name, row[0], a.StatusCode, <-lines)
				}
				continue
			}
			if a.StatusCode != 200 {
				t.Errorf("%s, %s: %d", tt.name, row[0], a.StatusCode)
			} else if got := <-lines; got != row[1] {
				t.Errorf("%s, %s: the upstream gets %s, want %s", tt.name, row[0], got, row[1])
			}
		}
	}
}
