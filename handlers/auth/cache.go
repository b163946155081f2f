package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
)

// A cache has so many answers at most, of so many bytes each.
const (
	maxAnswers   = 10_000
	maxAnswerLen = 4 << 10
)

// cache has answers of a route that lets a request pass. It has digests of what they are for, with
// a random key, and no credentials.
type cache struct {
	time   time.Duration
	byHost bool // an answer is for all targets of a host
	key    [sha256.Size]byte

	mu      sync.Mutex
	answers map[digest]*answer
	oldest  []*answer // in the order in which they expire; some are no longer in the map
}

type digest [sha256.Size]byte

// answer is what a route has said of a request that may pass.
type answer struct {
	of       digest
	until    time.Time
	copied   []conn.Field // those of copy_headers
	toClient []conn.Field // those of answer_headers
	user     string
}

func newCache(s *Settings) *cache {
	c := &cache{time: s.Cache, byHost: s.CacheBy == "host", answers: make(map[digest]*answer)}
	_, _ = rand.Read(c.key[:])
	return c
}

// ignoredFields are the fields that no answer depends on: they differ between the requests of a
// page, and say nothing of who asks. Any other field may have credentials.
var ignoredFields = []string{"Accept", "Accept-Encoding", "Accept-Language", "Cache-Control",
	"Connection",
	"Content-Encoding", "Content-Length", "Content-Type", "DNT", "Expect", "If-Match",
	"If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Keep-Alive", "Pragma",
	"Priority", "Range", "Referer", "Sec-GPC", "Sec-WebSocket-Extensions", "Sec-WebSocket-Key",
	"Sec-WebSocket-Version", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
	"Upgrade-Insecure-Requests", "Via", conn.RequestIDField}

// counts reports whether an answer may depend on a field. Others whose names begin with Sec- may:
// scripts that cannot set a field send tokens in Sec-WebSocket-Protocol.
func counts(name string) bool {
	return !ascii.HasPrefixFold(name, "Sec-Fetch-") && !ascii.HasPrefixFold(name, "Sec-CH-") &&
		!slices.ContainsFunc(ignoredFields, func(s string) bool { return ascii.EqualFold(s, name) })
}

// digest returns what stands for a request: for all that it has of credentials, for the client's
// address, and for what it asks for.
func (c *cache) digest(req *conn.Request) (d digest) {
	h := sha256.New()
	h.Write(c.key[:])
	part(h, "")
	if !c.byHost {
		part(h, req.Method())
		part(h, req.Target())
		part(h, req.RawQuery()) // rules may have rewritten it
		part(h, req.Path())
	}
	part(h, strings.ToLower(req.Host()))
	part(h, req.RemoteAddr().Addr().String())
	part(h, req.User())
	if req.Secure() {
		part(h, "https")
	}
	if state := req.TLS(); state != nil && len(state.PeerCertificates) > 0 {
		part(h, string(state.PeerCertificates[0].Raw))
	}
	for name, value := range req.Header().All() {
		if counts(name) {
			part(h, ascii.ToLower(name))
			part(h, value)
		}
	}
	if user, ok := req.Layer().HeaderView("Authorization"); ok { // which a layer may have used
		part(h, string(user))
	}
	h.Sum(d[:0])
	return d
}

// part adds a part with its length, so that no other parts have the same digest.
func part(h io.Writer, s string) {
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
	_, _ = io.WriteString(h, s)
}

// find returns the answer for a digest, nil if there is none that counts any more.
func (c *cache) find(d digest, now time.Time) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.answers[d]; a != nil && now.Before(a.until) {
		return a
	}
	return nil
}

// maxRemoved is how many answers make way for a new one at most, so that no request waits for more.
const maxRemoved = 16

// add keeps an answer, unless it is long. For all targets of a host holds only one that names a
// user: that a target is for everyone says nothing of the others. Answers that have expired make
// way, and the oldest one if there are too many.
func (c *cache) add(d digest, a *answer, now time.Time) {
	if c.byHost && a.user == "" {
		return
	}
	size := len(a.user)
	for _, fields := range [...][]conn.Field{a.copied, a.toClient} {
		for _, f := range fields {
			size += len(f.Value)
		}
	}
	if size > maxAnswerLen {
		return
	}
	a.of, a.until = d, now.Add(c.time)
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := 0; n < maxRemoved && len(c.oldest) > 0; n++ {
		first := c.oldest[0]
		if len(c.oldest) < maxAnswers && now.Before(first.until) {
			break
		}
		if c.answers[first.of] == first {
			delete(c.answers, first.of)
		}
		c.oldest[0] = nil
		c.oldest = c.oldest[1:]
	}
	if kept := c.answers[d]; kept != nil && now.Before(kept.until) {
		return // others have asked at the same time
	}
	c.answers[d] = a
	c.oldest = append(c.oldest, a)
}

// appendFields appends copies of the fields of that name, whose values may lie in a buffer.
func appendFields(fields []conn.Field, name string, header *conn.Header) []conn.Field {
	for _, value := range header.Values(name) {
		fields = append(fields, conn.Field{Name: name, Value: strings.Clone(value)})
	}
	return fields
}
