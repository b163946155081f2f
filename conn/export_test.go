package conn

import (
	"context"
	"net/url"
	"testing"
	"time"
	"unsafe"

	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/loop"
)

// StandardURL is the URL that an http.Handler sees.
func StandardURL(req *Request) string { return req.standard(nil).URL.String() }

// SetTask sets the task of the runtime's trace that the request belongs to. ctx is its context.
func SetTask(req *Request, ctx context.Context) { req.x.task = ctx }

// SetGraceOfRate makes the rate of a peer count earlier. It is for before any server runs; restore
// is for after.
func SetGraceOfRate(d time.Duration) (restore func()) {
	old := graceOfRate
	graceOfRate = d
	return func() { graceOfRate = old }
}

// SetRateWindow shortens the window of which the rate counts; as SetGraceOfRate.
func SetRateWindow(d time.Duration) (restore func()) {
	old := rateWindow
	rateWindow = d
	return func() { rateWindow = old }
}

// SetLingerTime bounds lingering closes, in all and in silence; as SetGraceOfRate.
func SetLingerTime(all, silence time.Duration) (restore func()) {
	oldTime, oldSilence := lingerTime, lingerSilence
	lingerTime, lingerSilence = all, silence
	return func() { lingerTime, lingerSilence = oldTime, oldSilence }
}

// LingerRate is the bound on what a lingering close reads, in bytes per second.
const LingerRate = int64(turnBudget * time.Second / lingerSpan)

// ConnectionSize is what an idle connection's record takes, in bytes.
const ConnectionSize = unsafe.Sizeof(connection{})

// Networks returns how many networks have connections that are counted.
func Networks(s *Server) int {
	a := &s.admission
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held.Len()
}

// MaxOwed is by how many connections the limit may be passed while loops ask each other to close
// some.
const MaxOwed = maxEvicting

// Owed returns how many connections other loops still have to close for newcomers that were let in.
func Owed(s *Server) int { return int(s.admission.evicting.Load()) }

// Refusing returns how many connections are being told 503.
func Refusing(s *Server) int { return int(s.admission.refusing.Load()) }

// FirstBad returns the first field of h that must not be sent.
func FirstBad(h *Header) *Field { return h.firstBad() }

func MarkValid(h *Header, n int) { h.markValid(n) }

// DecodeJSON is what BindJSON does with a body.
func DecodeJSON(text []byte, v any, strict bool) error { return decodeJSON(text, v, strict) }

// BindValues is what BindQuery does with parameters.
func BindValues(v any, values url.Values) error { return bindValues(v, values, nil) }

// Resting is how many exchanges rest under the invariants tag.
const Resting = maxQuarantined

// MakeID makes a new id of a request.
func MakeID(id *[32]byte) { makeID(id) }

// LocalKnown reports whether the connection knows the address that its client has connected to, so
// that nothing asks the kernel any more.
func LocalKnown(req *Request) bool { return !req.x.c.port.wildcard || req.x.c.localNumber > 0 }

// ConnectionsFor and PerConnection are of Limits.Complete.
var ConnectionsFor = connectionsFor

const PerConnection = perConnection

// Unread returns how many bytes of the body have come by HTTP/2 and were not read, and how much
// memory holds them.
func Unread(req *Request) (unread, held int) {
	in := &req.x.via.(*h2stream).body.in
	return in.Len(), in.Held()
}

// Grown returns by how many bytes windows of HTTP/2 have grown.
func Grown(s *Server) int64 { return s.windows.Taken() }

// Untaken returns how many bytes of HTTP/2 wait for the sockets of l. It is called on l.
func Untaken(s *Server, l *loop.Loop) (n int64) {
	l.Layer().EachThread(true, func(t loop.ThreadState) {
		if s2, ok := t.Task.(*session); ok && s2.server() == s {
			n += int64(s2.held.Held() + len(s2.Out))
		}
	})
	return n
}

// TakeWindows leaves nothing by which windows of HTTP/2 could grow.
func TakeWindows(s *Server) (restore func()) {
	taken := int64(0)
	for n := int64(16 << 20); n > 0; n /= 2 {
		for s.windows.Take(n) {
			taken += n
		}
	}
	return func() { s.windows.Give(taken) }
}

// SetBudget sets whose descriptors the servers have that run until the test's end. No other test
// runs meanwhile.
func SetBudget(t testing.TB, b *openfiles.Budget) {
	old := budget
	budget = b
	t.Cleanup(func() { budget = old })
}

// Bridges returns how many goroutines of net/http's handlers there are beyond the first of each
// connection.
func Bridges(s *Server) int64 { return s.bridges.beyond() }
