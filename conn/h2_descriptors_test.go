package conn_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// TestHTTP2Descriptors: what the streams of a client hold counts for the client. It gets 503 beyond
// its share, whatever its connections are, and others have theirs. All is given back. Another test
// that runs meanwhile would count, too.
func TestHTTP2Descriptors(t *testing.T) {
	const limit, streams = 400, 100
	for name, hold := range map[string]conn.Handler{
		"upstream": func(req *conn.Request, w *conn.Response) int {
			if err := req.Layer().TakeDescriptor(); err != nil {
				return w.Error(503, err)
			}
			return 0
		},
		"file": func(req *conn.Request, w *conn.Response) int {
			f, err := req.Layer().TempFile()
			if err != nil {
				return w.Error(503, err)
			}
			req.Defer(func() { f.Close(); f.Close() })
			return 0
		},
		"both": func(req *conn.Request, w *conn.Response) int {
			if err := req.Layer().TakeDescriptor(); err != nil {
				return w.Error(503, err)
			}
			// The stream gives back what its handler does not.
			if _, err := req.Layer().TempFile(); err != nil {
				return w.Error(503, err)
			}
			return 0
		},
	} {
		b := openfiles.New(limit)
		conn.SetBudget(t, b)
		release := make(chan struct{})
		s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			if status := hold(req, w); status != 0 {
				return status
			}
			_, _ = req.AwaitAny(-1, loop.FromChan(release))
			return 204
		}})
		dial := func(from string) *raw2 {
			d := net.Dialer{
				LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
			r := &raw2{t: t, Conn: must.Get(d.Dial("tcp", s.Addr))(t), out: []byte(http2.Preface)}
			t.Cleanup(func() { r.Close() })
			return r.frame(http2.SettingsFrame, 0, 0, "")
		}
		var greedy []*raw2
		for range 4 {
			r := dial("127.0.0.2")
			for i := range uint32(streams) {
				r.get(2*i + 1)
			}
			greedy = append(greedy, r.flush())
		}
		s.Skip(0)
		if n := b.Taken(); n < limit/4 || n > limit/2 {
			t.Errorf("%s: a client holds %d of %d", name, n, limit)
		}
		other := dial("127.0.0.3")
		for i := range uint32(20) {
			other.get(2*i + 1)
		}
		other.flush()
		s.Skip(0)
		close(release)
		for range 20 {
			if got := other.until(http2.Headers, http2.RSTStream, http2.GoAway); !strings.HasSuffix(got,
				" 204") {
				t.Errorf("%s: another client gets %s", name, got)
			}
		}
		refused := 0
		for _, r := range greedy {
			for range streams {
				if got := r.until(http2.Headers, http2.RSTStream, http2.GoAway); strings.HasSuffix(got,
					" 503") {
					refused++
				} else if !strings.HasSuffix(got, " 204") {
					t.Fatal(name, got)
				}
			}
		}
		if refused == 0 {
			t.Errorf("%s: no request was refused", name)
		}
		wait.Until(t, "all is given back", func() bool { return b.Taken() == 0 })
		s.Stop(0)
	}
}
