package cache

import (
	"encoding/binary"
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

// kept is the head of an answer, as the store's heads have it in Parsed.
type kept struct {
	status  int
	reason  string
	fields  []conn.Field
	fresh   rfc9111.Freshness
	vary    rfc9111.Vary
	variant string // vary's values in the request that was answered

	contentType string
	etag        string
	modified    int64 // Unix seconds; 0: unknown
	date        int64 // likewise, of Date

	relayed bool // another server's
	asItIs  bool // no coding is applied to it
	shared  bool // the answer is for others, too
	// While it comes. Nothing else of that may stay with an answer that is kept.
	fill atomic.Pointer[fill]

	aged atomic.Pointer[aged]
}

// aged is what a kept answer has in its fields for one second.
type aged struct {
	seconds     int64
	age, status string // values of Age and Cache-Status
}

// cacheName is the name of this cache in Cache-Status.
const cacheName = "lwango"

// texts returns the values of the fields that change as time goes by.
func (k *kept) texts(now time.Time) *aged {
	seconds := int64(k.fresh.Now(now) / time.Second)
	if a := k.aged.Load(); a != nil && a.seconds == seconds {
		return a
	}
	status := rfc9111.CacheStatus{Cache: cacheName, Hit: true, HasTTL: true,
		TTL: k.fresh.Lifetime - time.Duration(seconds)*time.Second}
	a := &aged{seconds: seconds, age: strconv.FormatInt(seconds, 10), status: string(status.Append(nil))}
	k.aged.Store(a)
	return a
}

// head makes the store's head.
func (k *kept) head(tags string) cachestore.Head {
	var text strings.Builder
	n := 0
	for _, f := range k.fields {
		n += len(f.Name) + len(": \r\n") + len(f.Value)
	}
	text.Grow(n)
	for _, f := range k.fields {
		text.WriteString(f.Name)
		text.WriteString(": ")
		text.WriteString(f.Value)
		text.WriteString("\r\n")
	}
	h := cachestore.Head{Status: k.status, Fields: text.String(), Tags: tags, Note: k.note(), Parsed: k}
	if k.vary != "" {
		h.Vary = string(k.vary) + "\n" + k.variant
	}
	// One copy of each text, and nothing that it was cut from.
	k.fields = splitFields(h.Fields, k.fields)
	k.splitVary(h.Vary)
	k.reason = strings.Clone(k.reason)
	k.look()
	return h
}

func (k *kept) splitVary(text string) {
	vary, variant, _ := strings.Cut(text, "\n")
	k.vary, k.variant = rfc9111.Vary(vary), variant
}

// splitFields appends the fields of text to into[:0].
func splitFields(text string, into []conn.Field) []conn.Field {
	into = into[:0]
	for len(text) > 0 {
		line, rest, _ := strings.Cut(text, "\r\n")
		name, value, _ := strings.Cut(line, ": ")
		into = append(into, conn.Field{Name: name, Value: value})
		text = rest
	}
	return into
}

const (
	noteRelayed = 1 << iota
	noteValidate
	noteStrict
)

// note writes down what the fields do not tell.
func (k *kept) note() string {
	flags := byte(0)
	for bit, is := range map[byte]bool{noteRelayed: k.relayed, noteValidate: k.fresh.Validate,
		noteStrict: k.fresh.Strict} {
		if is {
			flags |= bit
		}
	}
	f := &k.fresh
	b := []byte{flags}
	for _, n := range [...]int64{f.Received, int64(f.Age), int64(f.Lifetime), int64(f.StaleWhileRevalidate),
		int64(f.StaleIfError)} {
		b = binary.AppendVarint(b, n)
	}
	return string(append(b, k.reason...))
}

// parse makes Parsed of a head that the store has read.
func parse(h *cachestore.Head) {
	k := &kept{status: h.Status, fields: splitFields(h.Fields, nil), shared: true}
	k.splitVary(h.Vary)
	k.look()
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
		k.fresh = rfc9111.Freshness{Received: times[0], Age: time.Duration(times[1]),
			Lifetime: time.Duration(times[2]), StaleWhileRevalidate: time.Duration(times[3]),
			StaleIfError: time.Duration(times[4]), Validate: flags&noteValidate != 0,
			Strict: flags&noteStrict != 0}
		k.reason = string(note)
	}
	h.Parsed = k
}

// look looks for the fields that decide something.
func (k *kept) look() {
	for _, f := range k.fields {
		switch len(f.Name) {
		case len("ETag"): // and Date
			switch {
			case ascii.EqualFold(f.Name, "ETag") && http1.ValidETag(f.Value):
				k.etag = f.Value
			case ascii.EqualFold(f.Name, "Date"):
				if t, err := http1.ParseDate(f.Value); err == nil {
					k.date = t.Unix()
				}
			}
		case len("Content-Type"):
			if ascii.EqualFold(f.Name, "Content-Type") {
				k.contentType = f.Value
			}
		case len("Last-Modified"):
			switch {
			case ascii.EqualFold(f.Name, "Last-Modified"):
				if t, err := http1.ParseDate(f.Value); err == nil {
					k.modified = t.Unix()
				}
			case ascii.EqualFold(f.Name, "Cache-Control"):
				k.asItIs = k.asItIs || ascii.HasToken(f.Value, "no-transform")
			}
		case len("Content-Encoding"):
			k.asItIs = k.asItIs || ascii.EqualFold(f.Name, "Content-Encoding")
		}
	}
}

// fits reports whether the answer is the variant that a request gets (RFC 9111 section 4.1).
func (k *kept) fits(req conn.RequestLayer) bool {
	if k.vary == "" {
		return true
	}
	var space [256]byte
	return string(k.vary.AppendKey(space[:0], req)) == k.variant
}

// page reports whether the server makes a page of the answer: an error of a handler, without one.
func (k *kept) page(size int64) bool {
	return !k.relayed && k.status >= http.StatusBadRequest && size == 0
}
