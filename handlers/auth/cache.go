package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/ascii"
)

// A cache has so many answers at most, of so many bytes each.
const (
	maxAnswers   = 10_000
	maxAnswerLen = 4 << 10
)

// cache has answers of a route that lets a request pass. It has digests of what they are for, with a
// random key, and no credentials.
type cache struct {
	time   time.Duration
	byHost bool // an answer is for all targets of a host
	key    [sha256.Size]byte

	mu      sync.Mutex
	answers map[digest]*answer
	oldest  []digest // in the order in which they expire
}

type digest [sha256.Size]byte

// answer is what a route has said of a request that may pass.
type answer struct {
	until  time.Time
	copied [][]string   // values of the fields of copy_headers, in their order
	handed []conn.Field // those of answer_headers
	user   string
}

func newCache(s *Settings) *cache {
	c := &cache{time: s.Cache, byHost: s.CacheBy == "host", answers: make(map[digest]*answer)}
	_, _ = rand.Read(c.key[:])
	return c
}

// unread are the fields that no answer depends on: they differ between the requests of a page, and
// say nothing of who asks. Any other field may have credentials.
var unread = []string{"Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "Connection",
	"Content-Encoding", "Content-Length", "Content-Type", "DNT", "Expect", "Keep-Alive", "Pragma",
	"Priority", "Range", "Referer", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
	"Upgrade-Insecure-Requests", "Via", conn.RequestIDField}

// counts reports whether an answer may depend on a field.
func counts(name string) bool {
	return !ascii.HasPrefixFold(name, "If-") && !ascii.HasPrefixFold(name, "Sec-") &&
		!slices.ContainsFunc(unread, func(s string) bool { return ascii.EqualFold(s, name) })
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
	var length [8]byte
	for i, n := 0, len(s); i < len(length); i, n = i+1, n>>8 {
		length[i] = byte(n)
	}
	_, _ = h.Write(length[:])
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

// add keeps an answer. Answers that are long or have expired make way, and then the oldest one.
func (c *cache) add(d digest, a *answer, now time.Time) {
	size := len(a.user)
	for _, values := range a.copied {
		for _, v := range values {
			size += len(v)
		}
	}
	for _, f := range a.handed {
		size += len(f.Value)
	}
	if size > maxAnswerLen {
		return
	}
	a.until = now.Add(c.time)
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.oldest) > 0 {
		first := c.oldest[0]
		if kept := c.answers[first]; len(c.oldest) < maxAnswers && now.Before(kept.until) {
			break
		}
		delete(c.answers, first)
		c.oldest = c.oldest[1:]
	}
	if c.answers[d] == nil { // else others have asked at the same time
		c.answers[d] = a
		c.oldest = append(c.oldest, d)
	}
}

// clone returns copies of the values of a field, which may lie in a buffer.
func clone(values []string) []string {
	for i, v := range values {
		values[i] = strings.Clone(v)
	}
	return values
}
