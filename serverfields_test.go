package lwango_test

import (
	"crypto/tls"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TestServerFields sets each field of a Server that has a configuration and no Addr, and each field
// of a Listener, alone. None is ignored: it changes what the server is started with, or Start
// returns an error that names it.
func TestServerFields(t *testing.T) {
	const works = ""
	row := func(value any, want string) [2]any { return [2]any{value, want} }
	streams := func(*loop.Thread, *stream.Conn) error { return nil }
	fields(t, map[string][2]any{
		"Addr":           row("127.0.0.1:0", works),
		"Handler":        row(lwango.Service(whoAsks), works),
		"TLS":            row(modes.ServerTLS(), works),
		"HTTP2":          row(true, "HTTP2: there is no Addr"),
		"ACME":           row(&lwango.ACME{Domains: []string{"a.test"}}, "ACME: no [[listener]] has"),
		"TrustedProxies": row([]string{"10.0.0.0/8"}, works),
		"ProxyFields":    row("forwarded", "ProxyFields: there is no Addr"),
		"ProxyProtocol":  row(true, "ProxyProtocol: needs trusted_proxies"),
		"Listeners":      row([]lwango.Listener{{Addr: "127.0.0.1:0"}}, works),
		"File":           row("other.conf", "a File or a text, not both"),
		"Config":         row("threads = 2", works),
		"FS":             row(fstest.MapFS{}, works),
		"PubsubURL":      row("redis://127.0.0.1", "PubsubURL: this program has no broker"),
		"Limits":         row(lwango.Limits{MaxBodySize: 5}, works),
		"Grace":          row(time.Second, works),
		"Threads":        row(2, works),
		"Workers":        row(2, works),
		"Handoff":        row(coro.Channel, works),
		"NoCompression":  row(true, works),
		"AccessLog":      row(func(*lwango.AccessEntry) {}, works),
		"Logger":         row(slog.New(slog.DiscardHandler), "of Start"),
	}, func(set func(v reflect.Value)) lwango.Server {
		s := lwango.Server{Config: "threads = 1"}
		if set != nil {
			set(reflect.ValueOf(&s).Elem())
		}
		return s
	})
	fields(t, map[string][2]any{
		"Addr":           row("127.0.0.1:1", works),
		"Socket":         row(must.Listen(t), "has an Addr or a Socket"),
		"TLS":            row(modes.ServerTLS(), works),
		"ACME":           row(true, "ACME: the Server has no ACME"),
		"HTTP2":          row(true, works),
		"TrustedProxies": row([]string{"10.0.0.0/8"}, works),
		"ProxyFields":    row("forwarded", "ProxyFields: needs trusted_proxies"),
		"ProxyProtocol":  row(true, "ProxyProtocol: needs trusted_proxies"),
		"Streams":        row(streams, works),
		"Idle":           row(time.Second, "Idle is for Streams"),
	}, withListener(lwango.Listener{Addr: "127.0.0.1:0"}))
	fields(t, map[string][2]any{
		"Addr":           row("127.0.0.1:1", works),
		"Socket":         row(must.Listen(t), "has an Addr or a Socket"),
		"TLS":            row(new(tls.Config), "TLS is for HTTP"),
		"ACME":           row(true, "ACME is for HTTP"),
		"HTTP2":          row(true, "HTTP2 is for HTTP"),
		"TrustedProxies": row([]string{"10.0.0.0/8"}, "TrustedProxies are for HTTP"),
		"ProxyFields":    row("forwarded", "ProxyFields are for HTTP"),
		"ProxyProtocol":  row(true, "ProxyProtocol is for HTTP"),
		"Streams":        row(streams, works),
		"Idle":           row(time.Second, works),
	}, withListener(lwango.Listener{Addr: "127.0.0.1:0", Streams: streams}))
}

// withListener returns a Server with one Listener, l with a field set.
func withListener(l lwango.Listener) func(set func(v reflect.Value)) lwango.Server {
	return func(set func(v reflect.Value)) lwango.Server {
		l := l
		if set != nil {
			set(reflect.ValueOf(&l).Elem())
		}
		return lwango.Server{Listeners: []lwango.Listener{l}}
	}
}

// fields sets each field of what server lets it set to the value of its row, of which there is one
// for each exported field, and compares the error of Start.
func fields(t *testing.T, rows map[string][2]any,
	server func(set func(v reflect.Value)) lwango.Server) {
	t.Helper()
	before := lwango.SourceOf(server(nil))
	var kind reflect.Type
	server(func(v reflect.Value) { kind = v.Type() })
	for f := range kind.Fields() {
		if !f.IsExported() {
			continue
		}
		row, ok := rows[f.Name]
		if !ok {
			t.Errorf("%v.%s has no row", kind, f.Name)
			continue
		}
		s := server(func(v reflect.Value) { v.FieldByIndex(f.Index).Set(reflect.ValueOf(row[0])) })
		switch want := row[1].(string); want {
		case "":
			if reflect.DeepEqual(lwango.SourceOf(s), before) {
				t.Errorf("%v.%s is ignored", kind, f.Name)
			}
		case "of Start":
		default:
			s.Logger = logtext.Quiet
			if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v.%s: error %v, want %q", kind, f.Name, err, want)
			}
		}
	}
}

// TestServerFirstWrong: of several wrong fields the error is about the first, and tells the address
// of its listener, be it a Socket's.
func TestServerFirstWrong(t *testing.T) {
	ln := must.Listen(t)
	s := lwango.Server{Logger: logtext.Quiet, Listeners: []lwango.Listener{
		{Socket: ln, Idle: time.Second},
		{Addr: "127.0.0.1:0", Idle: time.Second},
	}}
	for want, s := range map[string]lwango.Server{
		"listen " + ln.Addr().String() + ": Idle is for Streams": s,
		"HTTP2: there is no Addr":                                {Logger: s.Logger, HTTP2: true, Listeners: s.Listeners},
	} {
		if err := s.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
