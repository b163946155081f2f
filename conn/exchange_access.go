package conn

import (
	"crypto/x509"
	"net/http"
	"net/netip"
	"time"

	"github.com/lwango/lwango/loop"
)

// AccessLog gets an entry for every answered request. Its methods must not block. They are called
// on the loop l or, at the end of an http.Handler that has hijacked its connection, on that
// handler's goroutine.
type AccessLog interface {
	// LogRequest logs one request. It notes in e.Share how much of the room for l's lines the
	// connection has used, and returns false if that is too much. Then the connection waits until
	// HasRoom returns true, for five seconds at most.
	LogRequest(l *loop.Loop, e *AccessEntry) bool

	// HasRoom reports whether a connection with that share may have more requests.
	HasRoom(l *loop.Loop, s Share) bool
}

// Share is how much of the access log's room a connection has used since the room was last emptied.
// Only the log knows what the numbers mean.
type Share struct {
	Used       uint16
	Generation uint8
}

// AccessEntry describes an answered request. The byte slices are views, good for the time of the
// call.
type AccessEntry struct {
	Remote   netip.AddrPort
	Time     time.Time // when the request's head was complete
	Duration time.Duration
	Method   string // "": refused, see Line
	Proto    string
	User     string // of RequestLayer.SetUser; "": none
	Status   int    // 499: the client left before there was an answer
	Secure   bool   // the client used https, see Request.Secure
	Bytes    int64  // of the response's body as framed; if it broke off, those acknowledged

	ID       []byte // of Request.ID
	Received int64  // bytes of head and body that were read, without the framing of chunks

	// TLSVersion and CipherSuite are those of crypto/tls; 0: the connection is plain. A proxy in
	// front may have ended the TLS of the client, see Secure.
	TLSVersion, CipherSuite uint16

	// ClientVerify is RequestLayer.ClientVerify, and ClientCertificate what it is about; nil: none.
	ClientVerify      string
	ClientCertificate *x509.Certificate

	// Upstream is the address of the upstream that was asked, as the configuration has it; "": none.
	// The times are from the moment when the request began to wait for it: UpstreamFirst until the
	// first byte of its answer (0: there was none), UpstreamTime until all of the answer had come.
	Upstream                    string
	UpstreamFirst, UpstreamTime time.Duration

	// UpstreamTries is how many times an upstream was tried, UpstreamConnect the time that the last
	// connection has taken (0: it was a kept one), and UpstreamAddress where it leads, which names of
	// hosts do not tell.
	UpstreamTries   int
	UpstreamConnect time.Duration
	UpstreamAddress string

	// UpstreamSplit is the part of a route's upstreams that was chosen, as the configuration names it;
	// "": all others.
	UpstreamSplit string

	// Cache is what a cache in front of the handler has done.
	Cache CacheUse

	// The first KiB of each.
	Target    []byte
	Host      []byte
	Referer   []byte
	UserAgent []byte

	// Line is the beginning of the first line of a request that could not be parsed, up to 256
	// bytes.
	Line []byte

	// Hijacked says that the handler has taken the connection over. Duration is then the time until
	// the end of the connection, or of the http.Handler. CloseCode is a WebSocket's; 0:
	// unknown.
	Hijacked  bool
	CloseCode int

	Share Share

	req *Request // see Layer
}

// Layer returns the request, for the time of the call of LogRequest. ok is false if it could not be
// parsed, or its line comes after it, as that of a connection that a handler has taken over.
func (e *AccessEntry) Layer() (r RequestLayer, ok bool) { return RequestLayer{e.req}, e.req != nil }

// AnswerField returns the first field of that name of the answer, as handlers and layers have set
// it; nil: there is none, or Layer has no request. It is for the time of the call of LogRequest.
func (e *AccessEntry) AnswerField(name string) []byte {
	if e.req == nil {
		return nil
	}
	return []byte(e.req.x.resp.header.Get(name))
}

const (
	loggedText = 1 << 10
	loggedLine = 256
	maxLogWait = 5 * time.Second

	// statusClientLeft is nginx's number for a client that does not wait for its answer.
	statusClientLeft = 499
)

// StatusNoAnswer is nginx's number for a client that gets no answer, see ResponseLayer.HangUp.
const StatusNoAnswer = 444

// logAccess logs the present request.
func (x *exchange) logAccess() { x.logRefused(nil, 0) }

// logRefused is logAccess for a request that could not be parsed. Of it so many bytes have arrived,
// and line is their beginning.
func (x *exchange) logRefused(line []byte, arrived int) {
	if log := x.accessLog(); log != nil {
		x.logIn(log, line, arrived)
	}
}

// logIn is logRefused in a certain log.
//
//go:noinline
func (x *exchange) logIn(log AccessLog, line []byte, arrived int) {
	if x.entry == nil {
		x.entry = new(AccessEntry)
	}
	e := x.entry
	x.describe(e)
	if x.req.raw == nil {
		e.Line, e.Received = line, int64(arrived)
	}
	e.Duration = time.Since(x.began)
	c := x.c
	e.Share = Share{c.logUsed, c.logGeneration}
	if !log.LogRequest(c.Loop(), e) {
		x.fullLog = log
	}
	c.logUsed, c.logGeneration = e.Share.Used, e.Share.Generation
}

// accessLog returns the access log of the present request; nil: none.
func (x *exchange) accessLog() AccessLog {
	if x.req.log != nil {
		return x.req.log
	}
	return x.set.AccessLog
}

// LogTo gives the request's line to another access log than Config's, and returns the one that it
// would have gone to; nil: Config's. All access logs of a server share one count of rounds (see
// Share), since a connection has one Share.
func (r RequestLayer) LogTo(log AccessLog) (before AccessLog) {
	before, r.log = r.log, log
	return before
}

// upstream is what the access log says of the upstream that was asked.
type upstream struct {
	name         string
	first, whole time.Duration

	tries   int
	connect time.Duration
	address string

	split string
}

// Logged reports whether anything asks what SetUpstream and its kin have noted: an access log, or
// the request that this one is a background subrequest of.
func (r RequestLayer) Logged() bool { return r.x.accessLog() != nil || r.x.background != nil }

// SetUpstream notes, for the access log, which upstream has been asked, and how long it has taken:
// see AccessEntry. What a handler does that answers a Subrequest is not noted.
func (r RequestLayer) SetUpstream(name string, first, whole time.Duration) {
	r.x.upstream = upstream{name: name, first: first, whole: whole}
}

// SetAttempts notes what else the access log says of it, behind SetUpstream.
func (r RequestLayer) SetAttempts(tries int, connect time.Duration, address string) {
	u := &r.x.upstream
	u.tries, u.connect, u.address = tries, connect, address
}

// SetSplit notes, behind SetUpstream, the name of the part of a route's upstreams that was chosen.
func (r RequestLayer) SetSplit(name string) { r.x.upstream.split = name }

// describe makes e the entry of the present request. (A literal would be made elsewhere and
// copied.)
func (x *exchange) describe(e *AccessEntry) {
	*e = AccessEntry{}
	e.Remote, e.Time = x.req.RemoteAddr(), x.began
	e.Proto, e.User, e.ID = x.req.Proto(), x.req.user, x.req.Layer().IDView()
	e.Status, e.Bytes = x.resp.status, x.sentBody()
	if u := &x.upstream; u.name != "" {
		e.setUpstream(u)
	}
	e.Cache = x.cache
	if x.c.tls != nil {
		t := x.c.transport()
		e.TLSVersion, e.CipherSuite = t.version, t.cipher
		if e.ClientVerify = x.c.clientVerify(); e.ClientVerify != "" {
			e.ClientCertificate = x.c.clientCertificate()
		}
	} else if w := x.c.proxyHeader(); w != nil && w.original != nil && w.original.tls != nil {
		e.TLSVersion, e.CipherSuite = w.original.tls.Version, w.original.tls.CipherSuite
	}
	switch {
	case x.left():
		e.Status = statusClientLeft
	case e.Status == 0 && x.resp.resetBy != 0:
		e.Status = http.StatusBadGateway
	}
	if raw := x.req.raw; raw != nil {
		h := &x.req.head
		e.Method, e.Secure = x.req.Method(), x.req.Secure()
		e.Received = int64(h.Len()) + x.req.body.read
		e.Target = first(loggedText, h.Target.Of(raw))
		e.Host = first(loggedText, h.Host.Of(raw))
		e.Referer, _ = h.Get(raw, "Referer")
		e.Referer = first(loggedText, e.Referer)
		e.UserAgent, _ = h.Get(raw, "User-Agent")
		e.UserAgent = first(loggedText, e.UserAgent)
		e.req = &x.req
	}
}

// setUpstream notes which upstream was setUpstream; nil: none.
func (e *AccessEntry) setUpstream(u *upstream) {
	if u != nil {
		e.Upstream, e.UpstreamFirst, e.UpstreamTime = u.name, u.first, u.whole
		e.UpstreamTries, e.UpstreamConnect, e.UpstreamAddress = u.tries, u.connect, u.address
		e.UpstreamSplit = u.split
	}
}

// sentBody returns how many bytes of the answer's body the client has got, as far as the server can
// tell: if the answer has broken off, not all that was framed has been sent.
func (x *exchange) sentBody() int64 {
	return x.via.sent(x.resp.bytes)
}

func first(n int, b []byte) []byte { return b[:min(n, len(b))] }

// left reports that the client has left before there was an answer, or within the request. A client
// that has only closed its sending half gets its answer, unless the handler had to wait for
// something.
func (x *exchange) left() bool {
	switch x.resp.status {
	case 0:
		return x.req.Thread.Gone() || x.req.body.truncated()
	case 400: // which Body.failure gives for a body that was cut
		return x.clientLeft || x.req.body.truncated()
	}
	return x.clientLeft
}

// awaitLog waits because the connection has used more than its share of the access log's room: the
// lines of others would find none. Meanwhile it sends answers, and returns the error of that.
func (c *connection) awaitLog(log AccessLog, send func() error) error {
	c.KeepWaiting(true) // the client may have sent thousands of requests and then a FIN
	defer c.KeepWaiting(false)
	until := c.Loop().Time().Add(maxLogWait)
	pause := time.Millisecond
	for !log.HasRoom(c.Loop(), Share{c.logUsed, c.logGeneration}) {
		if err := send(); err != nil {
			return err
		}
		if c.Loop().Stopping() || !c.Loop().Time().Before(until) || c.Sleep(pause) != nil {
			break
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
	return nil
}

// CacheUse is what a cache in front of the handler has done with a request, for the access log and
// the counters.
type CacheUse uint8

const (
	cacheNone        CacheUse = iota // there is no cache
	CacheHit                         // answered from what is kept
	CacheStale                       // the same, though it was stale
	CacheCollapsed                   // answered from what another request has brought, while it came
	CacheMiss                        // the handler was asked
	CacheExpired                     // the same: what was kept was stale, and has another answer now
	CacheRevalidated                 // the same, and what was kept is still true
	CacheBypass                      // the handler was asked, past the cache

	// numCacheUses is how many there are.
	numCacheUses
)

var cacheUseNames = [numCacheUses]string{"", "HIT", "STALE", "COLLAPSED", "MISS", "EXPIRED",
	"REVALIDATED", "BYPASS"}

// String returns it as the access log has it, in capital letters; "" for cacheNone.
func (u CacheUse) String() string { return cacheUseNames[u] }

// SetCache notes what the cache has done.
func (r RequestLayer) SetCache(u CacheUse) { r.x.cache = u }
