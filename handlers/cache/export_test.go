package cache

import (
	"fmt"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/wire/rfc9111"
)

const MaxRefreshes = maxRefreshes / 4 * 3 // of one site

// Stand lets all clocks stand still, so that an age is what Skip makes it, however long a test
// takes.
func (s *Store) Stand() { s.StandAt(time.Now()) }

// StandAt is Stand for clocks that show what those of another store do.
func (s *Store) StandAt(at time.Time) { s.clock.stopped.Store(&at) }

// Skip puts all clocks forward.
func (s *Store) Skip(d time.Duration) { s.clock.skew.Add(int64(d)) }

// Jump puts the machine's clock forward or back.
func (s *Store) Jump(d time.Duration) { s.clock.jump.Add(int64(d)) }

// Reread returns when an answer was received that goes to disk and comes back from there after
// between, and whether it has to be validated.
func (s *Store) Reread(received time.Time, between func()) (time.Time, bool) {
	h := cachestore.Head{Meta: (&kept{fresh: rfc9111.Freshness{Received: received.UnixNano()}}).meta()}
	text := s.note(&h)
	between()
	s.parse(&h, text)
	f := &answerOf(&h).fresh
	return time.Unix(0, f.Received), f.Validate
}

// CountUses returns the method of a count.
func CountUses(least uint32) func(hash uint64) bool { return (&uses{least: least}).enough }

// Functions for tests.
var (
	SortQuery  = sortQuery
	AppendTags = appendTags
)

// Asked is a request for TestPlan.
type Asked struct {
	Method, Protocol string
	Fields           []string // "Name: value" each
	Hooked           bool
}

// HeaderViewFrom implements compression.RequestHeader.
func (a *Asked) HeaderViewFrom(name string, from int) (value []byte, next int) {
	for i := from; i < len(a.Fields); i++ {
		if n, v, _ := strings.Cut(a.Fields[i], ": "); ascii.EqualFold(n, name) {
			return []byte(v), i + 1
		}
	}
	return nil, -1
}

// Proto implements compression.RequestHeader.
func (a *Asked) Proto() string { return a.Protocol }

// Subject is an answer for TestPlan, which was received Age ago.
type Subject struct {
	Status                int
	Fields                string
	Size                  int64
	InFile, Coming        bool
	Age, Fresh, Beside    time.Duration
	Validate, Stale, True bool
	Own                   bool // of a handler, and not of another server
}

// Plan returns what is planned, in words.
func Plan(a *Asked, s Subject, p *coding.Policy, now time.Time) string {
	ask := rfc9111.ReadRequest(a.Method, a)
	q := planRequest{Request: ask, from: a, date: now, hooked: a.Hooked, coding: p}
	k := &kept{relayed: !s.Own}
	k.readFields(s.Fields)
	k.fresh = rfc9111.Freshness{Received: now.Add(-s.Age).UnixNano(), Lifetime: s.Fresh,
		StaleWhileRevalidate: s.Beside,
		Validate:             s.Validate}
	it := planResponse{answer: answer{cachestore.Head{Status: s.Status, Fields: s.Fields}, k},
		fresh: k.fresh, size: s.Size,
		place: ofMemory, stale: s.Stale, valid: s.True}
	switch {
	case s.InFile:
		it.place = ofFile
	case s.Coming:
		it.place = ofReader
	}
	if s.Stale {
		it.fresh.Expire(now)
	}
	var made plan
	made.decide(&q, &it, now)
	return made.words()
}

func (p *plan) words() string {
	text := [...]string{forwards: "asks", sends: "sends", sendsAndForwards: "sends and asks",
		refuses: "refuses"}[p.act]
	switch p.act {
	case forwards:
		status := rfc9111.CacheStatus{Cache: "for", Forward: p.why}
		return text + " " + string(status.Append(nil))
	case refuses:
		return fmt.Sprint(text, " ", p.status)
	}
	text += fmt.Sprint(" ", p.use, " ", p.status)
	switch p.body {
	case ofMemory, ofFile, ofReader:
		text += fmt.Sprint(map[source]string{ofMemory: " memory ", ofFile: " file ",
			ofReader: " coming "}[p.body],
			p.part.Start, "+", p.part.Length)
	case ofLength:
		text += fmt.Sprint(" length ", p.part.Length)
	case severalParts:
		text += fmt.Sprint(" parts ", p.parts)
	}
	if p.coding != coding.Identity {
		text += " " + p.coding.String()
	}
	if !p.relays {
		text += " page"
	}
	return text
}
