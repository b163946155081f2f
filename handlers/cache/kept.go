package cache

import (
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/cachestore"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/rfc9111"
)

// kept is the head of an answer, as the store's heads have it in Parsed. There is one for each answer
// in memory, so it is small: the fields are taken out of the text when they are needed.
type kept struct {
	status  int
	reason  string
	text    string // the fields, each as "name: value\r\n"
	fields  int    // how many those are
	variant string // what Vary names, a line end, and the values that the request had; or empty
	fresh   rfc9111.Freshness

	contentType part // of text, as is etag; an empty one: there is none
	etag        part
	modified    int64 // Unix seconds; 0: unknown
	date        int64 // likewise, of Date

	relayed bool // another server's
	asItIs  bool // no coding is applied to it
	shared  bool // the answer is for others, too
	// While it comes. Nothing else of that may stay with an answer that is kept.
	fill atomic.Pointer[fill]

	aged atomic.Pointer[aged]
}

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

// fieldLen is the length of a field in the text.
func fieldLen(f *conn.Field) int { return len(f.Name) + len(": \r\n") + len(f.Value) }

func appendField(text []byte, f *conn.Field) []byte {
	return append(append(append(append(text, f.Name...), ": "...), f.Value...), "\r\n"...)
}

// head makes the store's head of the text of the fields, which nobody changes any more.
func (k *kept) head(text []byte, tags string) cachestore.Head {
	k.look(unsafe.String(unsafe.SliceData(text), len(text)))
	if k.reason == http.StatusText(k.status) {
		k.reason = "" // that is the usual one
	} else {
		k.reason = strings.Clone(k.reason)
	}
	return cachestore.Head{Status: k.status, Fields: k.text, Vary: k.variant, Tags: tags, Parsed: k}
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
func (k *kept) list() []conn.Field {
	all := make([]conn.Field, 0, k.fields)
	for text := k.text; text != ""; {
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
)

// note returns what the fields do not tell, for a head that goes to disk. Times are those of the
// machine's clock there.
func (s *Store) note(h *cachestore.Head) string {
	k := h.Parsed.(*kept)
	flags := byte(0)
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
		int64(f.StaleIfError)} {
		b = binary.AppendVarint(b, n)
	}
	return string(append(b, k.reason...))
}

// parse makes Parsed of a head that the store has read.
func (s *Store) parse(h *cachestore.Head) {
	k := &kept{status: h.Status, variant: h.Vary, shared: true}
	k.look(h.Fields)
	k.fresh.Validate = true // if the note says nothing
	note := []byte(h.Note)
	if len(note) > 0 {
		flags := note[0]
		note = note[1:]
		var times [5]int64
		for i := range times {
			n, size := binary.Varint(note)
			if size <= 0 {
				h.Parsed = k
				return
			}
			times[i], note = n, note[size:]
		}
		k.relayed = flags&noteRelayed != 0
		k.fresh = rfc9111.Freshness{Received: times[0] + int64(s.clock.fromMachine()), Age: time.Duration(times[1]),
			Lifetime: time.Duration(times[2]), StaleWhileRevalidate: time.Duration(times[3]),
			StaleIfError: time.Duration(times[4]), Validate: flags&noteValidate != 0,
			Strict: flags&noteStrict != 0}
		k.reason = string(note)
	}
	h.Parsed = k
}

// look takes over the text of the fields, and looks for those that decide something.
func (k *kept) look(text string) {
	k.text = text
	for text != "" {
		var name, value string
		at := len(k.text) - len(text)
		name, value, text = cutField(text)
		where := part{uint32(at + len(name) + len(": ")), uint32(len(value))}
		k.fields++
		switch len(name) {
		case len("ETag"): // and Date
			switch {
			case ascii.EqualFold(name, "ETag") && http1.ValidETag(value):
				k.etag = where
			case ascii.EqualFold(name, "Date"):
				if t, err := http1.ParseDate(value); err == nil {
					k.date = t.Unix()
				}
			}
		case len("Content-Type"):
			if ascii.EqualFold(name, "Content-Type") {
				k.contentType = where
			}
		case len("Last-Modified"): // and Cache-Control
			switch {
			case ascii.EqualFold(name, "Last-Modified"):
				if t, err := http1.ParseDate(value); err == nil {
					k.modified = t.Unix()
				}
			case ascii.EqualFold(name, "Cache-Control"):
				k.asItIs = k.asItIs || ascii.HasToken(value, "no-transform")
			}
		case len("Content-Encoding"):
			k.asItIs = k.asItIs || ascii.EqualFold(name, "Content-Encoding")
		}
	}
}

// variantOf is the text of a variant.
func variantOf(vary rfc9111.Vary, req conn.RequestLayer) string {
	if vary == "" {
		return ""
	}
	return string(vary.AppendKey([]byte(string(vary)+"\n"), req))
}

// fits reports whether the answer is the variant that a request gets (RFC 9111 section 4.1).
func (k *kept) fits(req conn.RequestLayer) bool {
	if k.variant == "" {
		return true
	}
	vary, values, _ := strings.Cut(k.variant, "\n")
	var space [256]byte
	return string(rfc9111.Vary(vary).AppendKey(space[:0], req)) == values
}

// page reports whether the server makes a page of the answer: an error of a handler, without one.
func (k *kept) page(size int64) bool {
	return !k.relayed && k.status >= http.StatusBadRequest && size == 0
}
