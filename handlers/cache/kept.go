package cache

import (
	"encoding/binary"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// kept is what heads of the store have in Meta: what has been made of the fields and, until it is
// on disk, what these do not tell. It has no pointers: the store keeps it where the collector does
// not look, for each answer in memory.
type kept struct {
	fresh rfc9111.Freshness

	contentType part // of the head's Fields, as is etag; an empty one: there is none
	etag        part
	changed     int64 // Unix seconds of Last-Modified or, without that, of Date; 0: unknown

	fields  uint16 // how many those are, about
	dated   bool   // changed is of Last-Modified
	relayed bool   // it is another server's
	asItIs  bool   // no coding is applied to it
	shared  bool   // it is for others, too
}

// kept takes no more than the store has for it.
var _ [unsafe.Sizeof(cachestore.Meta{}) - unsafe.Sizeof(kept{})]struct{}

func (k *kept) meta() *cachestore.Meta { return (*cachestore.Meta)(unsafe.Pointer(k)) }

// arriving is the kept of an answer that arrives, and what fetches it: nothing else of that may
// stay with an answer that is kept. The memory behind kept is for Meta to be as large as it says.
type arriving struct {
	kept
	_    [unsafe.Sizeof(cachestore.Meta{}) - unsafe.Sizeof(kept{})]byte
	fill atomic.Pointer[fill]
}

// answer is a head that is kept, or comes. Its Fields are the fields as text, each as "name:
// value\r\n", and its Vary is what Vary names, a line end, and the values that the request had; or
// it is empty.
type answer struct {
	cachestore.Head
	*kept
}

func answerOf(h *cachestore.Head) answer { return answer{*h, (*kept)(unsafe.Pointer(h.Meta))} }

// keptOf returns the head of an object.
func keptOf(o *cachestore.Object) answer { return answer{o.Head(), metaOf(o)} }

func metaOf(o *cachestore.Object) *kept { return (*kept)(unsafe.Pointer(o.Meta())) }

// filling returns what brings the answer; nil: all of it has come.
func (k answer) filling() *fill {
	if c, ok := k.Arriving.(*arriving); ok {
		return c.fill.Load()
	}
	return nil
}

// part is a part of a text.
type part struct{ at, n uint32 }

func (p part) of(text string) string { return text[p.at:][:p.n] }

// aging are values of the fields that change as time goes by: many answers have the same.
type aging struct{ ages, hits agings }

type agings [1 << 11]atomic.Pointer[aged]

func (t *agings) at(n int64) *atomic.Pointer[aged] { return &t[uint64(n)%uint64(len(t))] }

// aged is the value of a field for a number.
type aged struct {
	of   int64
	text string
}

// texts returns the values of Age and Cache-Status of a kept answer. stale is whether a soft purge
// has made it stale.
func (t *aging) texts(k *kept, now time.Time, stale bool) (age, status string) {
	seconds := int64(k.fresh.Now(now) / time.Second)
	ttl := k.fresh.Lifetime - time.Duration(seconds)*time.Second
	if stale {
		ttl = min(ttl, 0)
	}
	ages, hits := t.ages.at(seconds), t.hits.at(int64(ttl/time.Second))
	a, h := ages.Load(), hits.Load()
	if a == nil || a.of != seconds {
		a = &aged{seconds, strconv.FormatInt(seconds, 10)}
		ages.Store(a)
	}
	if h == nil || h.of != int64(ttl) {
		status := rfc9111.CacheStatus{Cache: rfc9111.Name, Hit: true, HasTTL: true, TTL: ttl}
		h = &aged{int64(ttl), string(status.Append(nil))}
		hits.Store(h)
	}
	return a.text, h.text
}

// usualText is how long a text of fields is whose memory is used again.
const usualText = 512

func appendField(text []byte, f *conn.Field) []byte {
	return append(append(append(append(text, f.Name...), ": "...), f.Value...), "\r\n"...)
}

// head makes the store's head of the text that appendText has made.
func (k *kept) head(status int, reason, fields, variant, tags string) cachestore.Head {
	if reason == http.StatusText(status) {
		reason = ""
	} else {
		reason = strings.Clone(reason)
	}
	return cachestore.Head{Status: status, Reason: reason, Fields: fields, Vary: variant, Tags: tags,
		Meta: k.meta()}
}

// list returns the fields.
func (k answer) list() []conn.Field {
	all := make([]conn.Field, 0, k.fields)
	for text := k.Fields; text != ""; {
		var f conn.Field
		f.Name, f.Value, text = http1.CutField(text)
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
	k := answerOf(h)
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
	for _, n := range [...]int64{received, int64(f.Age), int64(f.Lifetime),
		int64(f.StaleWhileRevalidate),
		int64(f.StaleIfError), s.clock.number, f.Received} {
		b = binary.AppendVarint(b, n)
	}
	return string(append(b, k.Reason...))
}

// parse makes Meta of a head that the store has read.
func (s *Store) parse(h *cachestore.Head, text string) {
	k := &new(arriving).kept
	k.shared = true
	k.readFields(h.Fields)
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
				h.Meta = k.meta()
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
		h.Reason = string(note)
	}
	h.Meta = k.meta()
}

// readFields looks through the text of the fields for those that decide something.
func (k *kept) readFields(fields string) {
	date := int64(0)
	for text := fields; text != ""; {
		var name, value string
		at := len(fields) - len(text)
		name, value, text = http1.CutField(text)
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
func (k answer) fits(req conn.RequestLayer) bool { return fits(k.Vary, req) }

func fits(variant string, req conn.RequestLayer) bool {
	if variant == "" {
		return true
	}
	vary, values, _ := strings.Cut(variant, "\n")
	var space [256]byte
	return string(rfc9111.Vary(vary).AppendKey(space[:0], req)) == values
}

// page reports whether the server makes a page of the answer: an error of a handler, without one.
func (k answer) page(size int64) bool {
	return !k.relayed && k.Status >= http.StatusBadRequest && size == 0
}
