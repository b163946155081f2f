package cache

import (
	"net/http"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/modules/compression"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// plan is what becomes of a request for which there is an answer, kept or on its way. decide makes
// all of it, from values alone; send and follow only do what it says.
type plan struct {
	act    act
	why    rfc9111.Forward // with forwards: as Cache-Status has it
	use    conn.CacheUse   // as the access log has it
	relays bool            // no page of the server's takes the answer's place
	only   bool            // the client wants nothing that is not kept
	shared bool            // a client gets no more long bodies than its share: the origin can be asked
	status int             // that goes out
	reason string          // empty: the usual one

	body   source
	part   http1.Range   // of the body; a length of -1: all, of which the length is not known yet
	parts  []http1.Range // of severalParts
	coding coding.Coding // in which the client gets the body; Identity: as it is
}

// act is what a plan does with a request.
type act uint8

const (
	forwards         act = iota // the origin is asked first
	sends                       // the answer is sent
	sendsAndForwards            // it is sent, and the origin is asked in the background
	refuses                     // the client wants nothing that is not kept
)

// source is where the body of a plan comes from.
type source uint8

const (
	noBody       source = iota
	ofMemory            // part of it
	severalParts        // parts of it, of what is in memory
	ofFile              // part of it
	ofLength            // there is a file, and HEAD needs no more than its length
	ofReader            // part of what comes
)

// planRequest is a request as a plan sees it.
type planRequest struct {
	rfc9111.Request
	from   compression.RequestHeader // the fields that Request only says are there
	date   time.Time                 // by the machine's clock
	hooked bool                      // layers further out may send the body in another form
	coding *coding.Policy            // of what clients get compressed; nil: nothing
}

// planResponse is an answer as a plan sees it.
type planResponse struct {
	answer
	body  []byte            // for send, if it is in memory
	fresh rfc9111.Freshness // as purges have left it
	size  int64             // of the body in bytes; -1: not known yet
	place source            // ofMemory, ofFile, ofReader
	stale bool              // a soft purge has made it stale
	valid bool              // its origin has said just now that it is true
}

// decide makes the plan for a request and an answer that is kept.
func (p *plan) decide(q *planRequest, s *planResponse, now time.Time) {
	use := s.fresh.Use(&q.Request, now)
	switch {
	case s.valid && (use == rfc9111.UseFresh || use == rfc9111.UseAfterValidation && !s.stale):
		p.answer(q, s, conn.CacheRevalidated)
	case use == rfc9111.UseFresh:
		p.answer(q, s, conn.CacheHit)
	case use == rfc9111.UseStale:
		p.answer(q, s, conn.CacheStale)
	case use == rfc9111.UseStaleWhileRevalidate:
		p.answer(q, s, conn.CacheStale)
		p.act = sendsAndForwards
	case use == rfc9111.UseGatewayTimeout:
		*p = plan{act: refuses, status: http.StatusGatewayTimeout}
	default:
		*p = plan{act: forwards, why: rfc9111.ForwardStale}
		if s.fresh.TTL(now) > 0 && !s.fresh.Validate {
			p.why = rfc9111.ForwardRequest
		}
	}
	p.shared = q.Method == http.MethodGet // HEAD takes none of a body
}

// answer makes the plan for an answer that is sent, whatever its age.
func (p *plan) answer(q *planRequest, s *planResponse, use conn.CacheUse) {
	*p = plan{act: sends, use: use, relays: !s.page(s.size), only: q.OnlyIfCached, status: s.Status,
		reason: s.Reason, body: s.place, part: http1.Range{Length: s.size}, coding: coding.Identity}
	if p.status != http.StatusOK {
		if s.size == 0 {
			p.body = noBody
		}
	} else if q.Conditional || q.Ranged {
		p.narrow(q, s)
	}
	switch {
	case p.body == ofFile && q.Method == http.MethodHead:
		p.body = ofLength
	case p.body == ofMemory && p.status == http.StatusOK && q.coding != nil && !s.asItIs:
		contentType := s.contentType.of(s.Fields)
		if q.coding.Worth(s.size, contentType) {
			p.coding = compression.Choose(q.from, q.coding.Order, contentType)
		}
	}
}

// narrow has the conditions and the range of a request decide (RFC 9110 sections 13 and 14).
func (p *plan) narrow(q *planRequest, s *planResponse) {
	v := http1.Validators{ETag: s.etag.of(s.Fields), Modified: s.modified(), Dated: s.dated}
	if q.Conditional {
		state := v
		if !v.Dated { // it was changed before its Date (RFC 9111 section 4.3.2)
			state.Modified, state.Dated = s.changed, s.changed != 0
		}
		if status := http1.Precondition(q.from, state, true); status != 0 {
			p.status, p.reason, p.body = status, "", noBody
			return
		}
	}
	if !q.Ranged || q.Method != http.MethodGet || s.size < 0 {
		return
	}
	value, next := q.from.HeaderViewFrom("Range", 0)
	if _, more := q.from.HeaderViewFrom("Range", next); more > 0 ||
		!http1.RangeApplies(q.from, v, q.date, q.hooked) {
		return
	}
	ranges, err := http1.ParseRange(string(value), s.size)
	switch {
	case err == http1.ErrRangeUnsatisfiable:
		p.status, p.reason, p.body = http.StatusRequestedRangeNotSatisfiable, "", noBody
	case err != nil:
	case len(ranges) == 1:
		p.status, p.reason, p.part = http.StatusPartialContent, "", ranges[0]
	case s.place == ofMemory && !s.encoded():
		// a client would decode the parts with what is around them
		p.status, p.reason, p.body, p.parts = http.StatusPartialContent, "", severalParts, ranges
	}
}

// encoded reports whether the body has a content coding.
func (s *planResponse) encoded() bool {
	for text := s.Fields; text != ""; {
		var name string
		if name, _, text = http1.CutField(text); ascii.EqualFold(name, "Content-Encoding") {
			return true
		}
	}
	return false
}
