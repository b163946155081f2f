package conn_test

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
)

// TestHTTP2Bridges: handlers of net/http have goroutines, one for each connection and as many more
// as there may be connections. A client gets 503 beyond its share of these, whatever its
// connections are, and others have theirs. All is given back when the handlers return.
func TestHTTP2Bridges(t *testing.T) {
	t.Parallel()
	const limit, connections, streams = 40, 3, 60
	release := make(chan struct{})
	s := start(t, modes.HTTP2, conn.Config{
		Limits: conn.Limits{MaxConnections: limit, MaxConnectionsPerAddress: -1},
		Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-release
			w.WriteHeader(204)
		}))})
	dial := func(from string, streams uint32) *raw2 {
		d := net.Dialer{
			LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
		r := &raw2{t: t, Conn: must.Get(d.Dial("tcp", s.Addr))(t), out: []byte(http2.Preface)}
		t.Cleanup(func() { r.Close() })
		r.frame(http2.SettingsFrame, 0, 0, "")
		for i := range streams {
			r.get(2*i + 1)
		}
		return r.flush()
	}
	served := func(rs []*raw2, streams int) (n int) {
		for _, r := range rs {
			for range streams {
				got := r.until(http2.Headers, http2.RSTStream, http2.GoAway)
				switch {
				case strings.HasSuffix(got, " 204"):
					n++
				case !strings.HasSuffix(got, " 503"):
					t.Fatal(got)
				}
			}
		}
		return n
	}
	var greedy []*raw2
	for range connections {
		greedy = append(greedy, dial("127.0.0.2", streams))
	}
	s.Skip(0)
	others := []*raw2{dial("127.0.0.3", 8), dial("127.0.0.4", 1)}
	s.Skip(0)
	if n := conn.Bridges(s.Server); n > limit {
		t.Errorf("%d goroutines beyond the first of each connection, %d may be", n, limit)
	}
	close(release)
	if n := served(greedy, streams); n < limit/4 || n > limit/2+connections {
		t.Errorf("a client had %d goroutines", n)
	}
	if n := served(others[:1], 8) + served(others[1:], 1); n != 9 {
		t.Errorf("%d of 9 requests of other clients were served", n)
	}
	wait.Until(t, "all is given back", func() bool { return conn.Bridges(s.Server) == 0 })
	again := []*raw2{dial("127.0.0.2", limit/4)}
	if n := served(again, limit/4); n != limit/4 {
		t.Errorf("%d of %d requests were served", n, limit/4)
	}
}
