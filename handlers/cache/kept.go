package cache

import (
	"encoding/binary"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/cachestore"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/rfc9111"
)

// kept is what heads of the store have in Parsed: what has been made of the fields and, until it is
// on disk, what these do not tell. There is one for each answer in memory, so it is small.
type kept struct {
	reason string // "": the usual one
	fresh  rfc9111.Freshness

	contentType part // of the head's Fields, as is etag; an empty one: there is none
	etag        part
	changed     int64 // Unix seconds of Last-Modified or, without that, of Date; 0: unknown

	fields  uint16 // how many those are, about
	dated   bool   // changed is of Last-Modified
	relayed bool   // it is another server's
	asItIs  bool   // no coding is applied to it
	shared  bool   // it is for others, too

	// While it comes. Nothing else of that may stay with an answer that is kept.
	fill atomic.Pointer[fill]

	aged atomic.Pointer[aged]
}

// answer is a head that is kept, or comes. Its Fields are the fields as text, each as "name:
// value\r\n", and its Vary is what Vary names, a line end, and the values that the request had; or
// it is empty.
type answer struct {
	*cachestore.Head
	*kept
}

func answerOf(h *cachestore.Head) answer { return answer{h, h.Parsed.(*kept)} }

// keptOf returns the head of an object.
func keptOf(o *cachestore.Object) answer { return answerOf(o.Head()) }

// part is a part of a text.
type part struct{ at, n uint32 }

func (p part) of(text string) string { return text[p.at:][:p.n] }

// aged is what a kept answer has in its fields for one second.
type aged struct {
	seconds     int64
	stale       bool   // by a soft purge
	age, status string // values of Age and Cache-Status
}

// texts returns the values of the fields that change as time goes by. stale is whether a soft purge
// has made the answer stale.
func (k *kept) texts(now time.Time, stale bool) *aged {
	seconds := int64(k.fresh.Now(now) / time.Second)
	if a := k.aged.Load(); a != nil && a.seconds == seconds && a.stale == stale {
		return a
	}
	ttl := k.fresh.Lifetime - time.Duration(seconds)*time.Second
	if stale {
		ttl = min(ttl, 0)
	}
	status := rfc9111.CacheStatus{Cache: rfc9111.Name, Hit: true, HasTTL: true, TTL: ttl}
	a := &aged{seconds: seconds, stale: stale, age: strconv.FormatInt(seconds, 10),
		status: string(status.Append(nil))}
	k.aged.Store(a)
	return a
}

func appendField(text []byte, f *conn.Field) []byte {
	return append(append(append(append(text, f.Name...), ": "...), f.Value...), "\r\n"...)
}

// head makes the store's head of the text that appendText has made.
func (k *kept) head(status int, fields, variant, tags string) cachestore.Head {
	if k.reason == http.StatusText(status) {
		k.reason = ""
	} else {
		k.reason = strings.Clone(k.reason)
	}
	return cachestore.Head{Status: status, Fields: fields, Vary: variant, Tags: tags, Parsed: k}
}

// cutField cuts the first field off a text. What has not the form of one ends the text.
func cutField(text string) (name, value, rest string) {
	n, end := strings.IndexByte(text, ':'), strings.IndexByte(text, '\r')
	if n < 0 || end < n+2 || end+2 > len(text) {
		return "", "", ""
	}
	return text[:n], text[n+2 : end], text[end+2:]
}

// list returns the fields.
func (k answer) list() []conn.Field {
	all := make([]conn.Field, 0, k.fields)
	for text := k.Fields; text != ""; {
		var f conn.Field
		f.Name, f.Value, text = cutField(text)
		all = append(all, f)
	}
	return all
}

const (
	noteRelayed = 1 << iota
	noteValidate
	noteStrict
	noteClock
)

// note returns what the fields do not tell, for a head that goes to disk. Times are those of the
// machine's clock there, for another process; this one has its own behind them, as the machine's
// clock may be put back.
func (s *Store) note(h *cachestore.Head) string {
	k := h.Parsed.(*kept)
	flags := byte(noteClock)
	for bit, is := range map[byte]bool{noteRelayed: k.relayed, noteValidate: k.fresh.Validate,
		noteStrict: k.fresh.Strict} {
		if is {
			flags |= bit
		}
	}
	f := &k.fresh
	b := []byte{flags}
	received := f.Received - int64(s.clock.fromMachine())
	for _, n := range [...]int64{received, int64(f.Age), int64(f.Lifetime), int64(f.StaleWhileRevalidate),
		int64(f.StaleIfError), s.clock.number, f.Received} {
		b = binary.AppendVarint(b, n)
	}
	return string(append(b, k.reason...))
}

// parse makes Parsed of a head that the store has read.
func (s *Store) parse(h *cachestore.Head, text string) {
	k := &kept{shared: true}
	k.look(h.Fields)
	k.fresh.Validate = true // if the note says nothing
	note := []byte(text)
	if len(note) > 0 {
		flags := note[0]
		note = note[1:]
		var times [7]int64
		known := times[:5] // by what earlier versions have written
		if flags&noteClock != 0 {
			known = times[:]
		}
		for i := range known {
			n, size := binary.Varint(note)
			if size <= 0 {
				h.Parsed = k
				return
			}
			times[i], note = n, note[size:]
		}
		k.relayed = flags&noteRelayed != 0
		k.fresh = rfc9111.Freshness{Received: times[6], Age: time.Duration(times[1]),
			Lifetime: time.Duration(times[2]), StaleWhileRevalidate: time.Duration(times[3]),
			StaleIfError: time.Duration(times[4]), Validate: flags&noteValidate != 0,
			Strict: flags&noteStrict != 0}
		if flags&noteClock == 0 || times[5] != s.clock.number {
			k.fresh.Received = times[0] + int64(s.clock.fromMachine())
			if k.fresh.Received > s.clock.at(time.Now()).UnixNano() {
				k.fresh.Validate = true // the machine's clock was put back: the age is unknown
			}
		}
		k.reason = string(note)
	}
	h.Parsed = k
}

// look looks through the text of the fields for those that decide something.
func (k *kept) look(fields string) {
	date := int64(0)
	for text := fields; text != ""; {
		var name, value string
		at := len(fields) - len(text)
		name, value, text = cutField(text)
		k.take(name, value, at)
		switch {
		case ascii.EqualFold(name, "Date"):
			if t, err := http1.ParseDate(value); err == nil {
				date = t.Unix()
			}
		case ascii.EqualFold(name, "Last-Modified"):
			if t, err := http1.ParseDate(value); err == nil {
				k.changed, k.dated = t.Unix(), true
			}
		}
	}
	if !k.dated {
		k.changed = date
	}
}

// take notes what the field decides that begins there in the text.
func (k *kept) take(name, value string, at int) {
	where := part{uint32(at + len(name) + len(": ")), uint32(len(value))}
	if k.fields < math.MaxUint16 {
		k.fields++
	}
	switch len(name) {
	case len("ETag"):
		if ascii.EqualFold(name, "ETag") && http1.ValidETag(value) {
			k.etag = where
		}
	case len("Content-Type"):
		if ascii.EqualFold(name, "Content-Type") {
			k.contentType = where
		}
	case len("Cache-Control"):
		if ascii.EqualFold(name, "Cache-Control") {
			k.asItIs = k.asItIs || ascii.HasToken(value, "no-transform")
		}
	case len("Content-Encoding"):
		k.asItIs = k.asItIs || ascii.EqualFold(name, "Content-Encoding")
	}
}

// modified returns the time of Last-Modified in Unix seconds, 0 if there is none.
func (k *kept) modified() int64 {
	if k.dated {
		return k.changed
	}
	return 0
}

// variantOf is the text of a variant.
func variantOf(vary rfc9111.Vary, req conn.RequestLayer) string {
	if vary == "" {
		return ""
	}
	return string(vary.AppendKey([]byte(string(vary)+"\n"), req))
}

// fits reports whether the answer is the variant that a request gets (RFC 9111 section 4.1).
func (k answer) fits(req conn.RequestLayer) bool {
	if k.Vary == "" {
		return true
	}
	vary, values, _ := strings.Cut(k.Vary, "\n")
	var space [256]byte
	return string(rfc9111.Vary(vary).AppendKey(space[:0], req)) == values
}

// page reports whether the server makes a page of the answer: an error of a handler, without one.
func (k answer) page(size int64) bool {
	return !k.relayed && k.Status >= http.StatusBadRequest && size == 0
}
