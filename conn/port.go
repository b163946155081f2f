package conn

import (
	"crypto/tls"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// Listener is a listening socket for one loop.
type Listener struct {
	FD  int         // non-blocking, from loop.Listen; the server's once Listen has succeeded
	TLS *tls.Config // nil: plain

	// Name is what RequestLayer.Listener returns, and the key of Config.Proxies. It may be empty, and
	// several listeners may share it.
	Name string

	// Terms, if not nil, counts how often the listener has begun to ask more of its clients than
	// before, such as a certificate: see Server.Outdate.
	Terms *atomic.Uint32

	// HTTP2 lets clients speak HTTP/2 as well: over TLS if they agree on "h2" by ALPN, for which it
	// must be among NextProtos, and otherwise with prior knowledge (RFC 9113 section 3).
	HTTP2 bool

	// Misdirected, if not nil, reports whether a request for host must come by another connection than
	// one whose client has asked for the name sni in its handshake. A client of HTTP/2 may ask for any
	// host on one connection (RFC 9113 section 9.1.1); then it gets 421.
	Misdirected func(sni, host string) bool

	// ClientVerify, if not nil, returns what RequestLayer.ClientVerify does for a connection, whose
	// handshake is over. It costs little where no client is asked for a certificate.
	ClientVerify func(*tls.Conn) string
}

// port is what the connections of one listener on one loop share.
type port struct {
	Listener
	server *Server
	loop   *loop.Loop
	terms  terms

	local    netip.AddrPort // the listener's; invalid: a UNIX socket's, or of no listener
	wildcard bool           // connections have different ones
	locals   locals

	stats *loopStats // the loop's

	// untaken is how many bytes of their answers the clients of overdue connections had not taken
	// when IdleTimedOut last looked. Few connections need it, so their records do not have it.
	untaken map[*connection]int

	spareStreams               // of HTTP/2
	spare        []*exchange   // that no background subrequest uses
	backgrounds  []*background // that were released
	taps         []*tapped     // that no response has

	// The first fields of all responses of this second.
	second int64
	set    *settings
	date   []byte // the Date field
	fields []byte // date and the configured fields

	// The same for HTTP/2.
	encodedDate, encoded []byte
}

// refresh sets date and fields for this second. The loop's time stands still during a turn, so the
// text is right even after the loop has slept.
func (p *port) refresh(set *settings) {
	if now := p.loop.Time(); now.Unix() != p.second || set != p.set {
		p.renew(now, set)
	}
}

// renew is refresh in a new second, or with other settings.
//
//go:noinline
func (p *port) renew(now time.Time, set *settings) {
	p.second, p.set = now.Unix(), set
	p.date = append(http1.AppendDate(append(p.date[:0], "Date: "...), now), "\r\n"...)
	p.fields = append(append(p.fields[:0], p.date...), set.fields...)
	p.encode(set) // also where HTTP/2 was turned off: a connection from before may speak it
}

// encode is refresh for HTTP/2.
func (p *port) encode(set *settings) {
	p.encodedDate = http2.AppendField(p.encodedDate[:0], "Date",
		string(p.date[len("Date: "):len(p.date)-2]))
	p.encoded = append(p.encoded[:0], p.encodedDate...)
	for _, f := range set.Headers {
		if http1.ValidToken(f.Name) && http1.ValidFieldValue(f.Value) {
			p.encoded = http2.AppendField(p.encoded, f.Name, f.Value)
		}
	}
}
