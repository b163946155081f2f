package reverseproxy

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/upstream"
)

// processSecret is the secret of routes without one. It belongs to the process, so that a reload
// does not change it.
var processSecret = sync.OnceValue(func() []byte { return []byte(rand.Text()) })

// stickyCookie is the cookie of a route. A cookie is the number of an address, the time until which
// it is good, and a part of the HMAC of both: so a client can neither choose an address nor make
// one stay its own for longer.
type stickyCookie struct {
	upstreams.Sticky
	macs sync.Pool // of hash.Hash
}

const (
	numberSize  = 8
	untilSize   = 4 // UNIX time in seconds, up to 2106; 0: none
	signedSize  = numberSize + untilSize
	cookieBytes = signedSize + 12
)

// sticky reads the key of that name.
func (r *Route) sticky(s *upstream.Settings) error {
	set := r.Sticky
	if set.Name == "" {
		if set != defaults.Sticky {
			return handlers.BadKey("sticky", "missing: the name of the cookie")
		}
		return nil
	}
	secret := []byte(set.Secret)
	const host = "__Host-" // a cookie with this prefix is one host's (RFC 6265bis section 4.1.3)
	valid := http.Cookie{Name: set.Name, Value: "x", Domain: set.Domain, Path: set.Path}
	switch err := valid.Valid(); {
	case err != nil:
		return handlers.BadKey("sticky", "%s", strings.TrimPrefix(err.Error(), "http: "))
	case !strings.HasPrefix(set.Path, "/"):
		return handlers.BadKey("sticky", "path: expected one that begins with a slash, not %q", set.Path)
	case set.SameSite == "none" && set.Secure == "off":
		return handlers.BadKey("sticky",
			`browsers take no cookie with samesite = "none" and secure = "off"`)
	case set.Secure == "off" &&
		(ascii.HasPrefixFold(set.Name, host) || ascii.HasPrefixFold(set.Name, "__Secure-")):
		return handlers.BadKey("sticky", `browsers take no cookie of the name %s with secure = "off"`,
			set.Name)
	case ascii.HasPrefixFold(set.Name, host) && (set.Path != "/" || set.Domain != ""):
		return handlers.BadKey("sticky",
			"browsers take no cookie of the name %s with a domain or another path than /", set.Name)
	case len(secret) == 0:
		secret = processSecret()
	case len(secret) < 16:
		return handlers.BadKey("sticky", "secret: expected at least 16 bytes, not %d", len(secret))
	}
	s.Secret = secret
	r.cookies = &stickyCookie{Sticky: set}
	r.cookies.macs.New = func() any { return hmac.New(sha256.New, secret) }
	return nil
}

// sign appends the signature of what begins with the name of the cookie.
func (s *stickyCookie) sign(b []byte) []byte {
	mac := s.macs.Get().(hash.Hash)
	defer s.macs.Put(mac)
	mac.Reset()
	_, _ = mac.Write(b)
	_, _ = mac.Write([]byte(s.Name)) // a cookie of another name is for other addresses
	return append(b, mac.Sum(nil)[:cookieBytes-signedSize]...)
}

// read returns the number in a request's cookie; 0: there is no valid one. old says that the client
// should get a new one soon.
func (s *stickyCookie) read(req *conn.Request) (number uint64, old bool) {
	value := placeholder.Cookie(req, s.Name)
	if base64.RawURLEncoding.DecodedLen(len(value)) != cookieBytes {
		return 0, false
	}
	var room [cookieBytes]byte
	if _, err := base64.RawURLEncoding.Decode(room[:], value); err != nil {
		return 0, false
	}
	if signed := s.sign(room[:signedSize:signedSize]); !hmac.Equal(signed, room[:]) {
		return 0, false
	}
	if until := binary.BigEndian.Uint32(room[numberSize:]); s.Expires > 0 || until > 0 {
		left := time.Until(time.Unix(int64(until), 0))
		if left <= 0 {
			return 0, false
		}
		old = left < s.Expires/2
	}
	return binary.BigEndian.Uint64(room[:]), old
}

// set gives the client the cookie for a number.
func (s *stickyCookie) set(req *conn.Request, h *conn.Header, number uint64) {
	b := make([]byte, 0, cookieBytes)
	until := uint32(0)
	if s.Expires > 0 {
		until = uint32(min(time.Now().Add(s.Expires).Unix(), 1<<32-1))
	}
	b = binary.BigEndian.AppendUint64(b, number)
	b = s.sign(binary.BigEndian.AppendUint32(b, until))
	c := http.Cookie{Name: s.Name, Value: base64.RawURLEncoding.EncodeToString(b), Domain: s.Domain,
		Path: s.Path, MaxAge: int(s.Expires / time.Second), HttpOnly: s.HTTPOnly,
		Secure: s.Secure == "on" || s.Secure == "auto" && req.Secure() || s.SameSite == "none"}
	switch s.SameSite {
	case "strict":
		c.SameSite = http.SameSiteStrictMode
	case "none":
		c.SameSite = http.SameSiteNoneMode
	default:
		c.SameSite = http.SameSiteLaxMode
	}
	h.Add("Set-Cookie", c.String())
}

// Stick gives the client a cookie for the upstream that answers, if the route has one and the
// client's is of another upstream, or old. h is the header of the answer.
func (c *Call) Stick(h *conn.Header) {
	if c.cookies == nil {
		return
	}
	if id := c.Up.LastStickyID(); id != c.Up.StickyID || c.cookieOld {
		c.cookies.set(c.Req, h, id)
	}
}
