package conn

import (
	"errors"
	"time"

	"github.com/lwango/lwango/stream"
)

// A request whose client does not keep a limit ends early, most often in the middle of an answer
// with status 200, so neither client nor access log tell why. Each way to such an end logs it here,
// with the key that sets the limit.

const tooSlow = "conn: the client is too slow, its request ends early"

// slow logs that the request ends because of err, unless that is something else than a pace which
// the client has not kept. An end behind the answer is none of the request's.
func (x *exchange) slow(err error, p *stream.Pace) {
	if x.req.Thread == nil || x.resp.phase == complete || p == nil ||
		!errors.Is(err, stream.ErrTooSlow) {
		return
	}
	reading, _ := x.via.paces()
	x.c.port.server.logSlow(tooSlow, p, p == reading,
		append(x.about(), "remote", x.c.remote.addrPort())...)
}

// LastPing returns when the last PING of the client's connection of HTTP/2 has come, by
// LoopLayer.Clock; 0: none has. Clients that send such want silent requests to last.
func (r RequestLayer) LastPing() time.Duration {
	if st := r.x.via.multiplexed(); st != nil {
		return st.lastPing()
	}
	return 0
}

// logSlow logs which limit of p a client has not kept, and counts it.
func (s *Server) logSlow(what string, p *stream.Pace, reading bool, args ...any) {
	var key string
	var limit any
	switch {
	case !p.Silent():
		key, limit = "min_rate", p.MinRate
	case reading:
		key, limit = "body_timeout", p.Idle
	default:
		key, limit = "write_timeout", p.Idle
	}
	s.refuse(refusedSlow)
	s.settings.Load().Logger.Info(what, append([]any{"key", key, "limit", limit}, args...)...)
}

func setPace(p *stream.Pace, set *settings, idle time.Duration) {
	*p = stream.Pace{} // a literal with the fields below would be copied
	p.Idle, p.MinRate, p.Grace, p.Window = idle, set.MinRate, graceOfRate, rateWindow
}

// They are variables only for the tests.
var (
	graceOfRate = 10 * time.Second // the time waited for a client before its rate counts
	rateWindow  = 30 * time.Second // the waited time over which the rate is measured
)

// setSilence sets how long a client may be silent within its body. Whoever gives it more time than
// usual takes silence for no fault, so the rate, which a silent client does not keep, does not
// count either.
func setSilence(p *stream.Pace, d time.Duration, set *settings) {
	if p.Idle = d; d == 0 {
		p.Idle = 1 // for a Pace, 0 is no limit
	}
	if d < 0 || d > set.BodyTimeout {
		p.MinRate = 0
	}
}
