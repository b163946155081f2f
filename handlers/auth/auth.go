// Package auth is the setting `auth` of a site, of a route and of a rule: who may pass is asked for
// a name and a password, by the Basic scheme (RFC 7617), or a route of the site is asked.
//
//	auth = { realm = "staff", htpasswd = "staff.htpasswd" }
//
//	auth.go        settings and handler
//	subrequest.go  a route that decides who may pass, asked by a subrequest
//	jwt.go         JSON Web Tokens
//	keys.go        the keys by which tokens are signed
//	links.go       links that an application has signed
//	login.go       where a client logs in
//	cache.go       answers of that route, kept for some seconds
//	htpasswd.go    the text of an htpasswd file
//	hash.go        the hashes in an htpasswd file
//	crypt.go       those of crypt(3) and argon2
//	file.go        the htpasswd file, read again when it changes
//	gate.go        how many hashes are computed at a time
package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Settings are the keys of `auth`.
type Settings struct {
	// Realm is what the browser shows; empty: "restricted".
	Realm string `toml:"realm" default:"restricted"`
	// Htpasswd is the file with the users.
	Htpasswd string `toml:"htpasswd"`

	// JWT asks for a JSON Web Token instead.
	JWT *JWT `toml:"jwt" default:"-"`

	// Request is, instead of that, the path of the route to ask.
	Request string `toml:"request"`
	// CopyHeaders are fields of that route's answer that go into the request.
	CopyHeaders []string `toml:"copy_headers"`
	// RequestHeaders are fields for that route, with placeholders for parts of the request.
	RequestHeaders map[string]string `toml:"request_headers"`
	// AnswerHeaders are fields of its answer that the client gets, too, if it may pass.
	AnswerHeaders []string `toml:"answer_headers"`
	// UserHeader is the field of its answer that has the user's name.
	UserHeader string `toml:"user_header"`
	// WholeAnswer gives the client the answer of a route that does not let it pass.
	WholeAnswer bool `toml:"whole_answer"`
	// Login is the address to log in at, where a client goes that gets a 401 otherwise.
	Login string `toml:"login"`
	// Cache is for how long an answer that lets a request pass holds for others like it.
	Cache time.Duration `toml:"cache" min:"0s" max:"10m"`
	// CacheBy says which are like it.
	CacheBy string `toml:"cache_by" oneof:"target host"`
}

// String says in words who may pass.
func (s Settings) String() string {
	if s.JWT != nil {
		return "tokens of " + s.JWT.Issuer + " for " + strings.Join(s.JWT.Audience, ", ")
	}
	if s.Request != "" {
		return "what " + s.Request + " answers"
	}
	return "a user of " + s.Htpasswd
}

// scheme is what AUTH_TYPE is for a user that was found out here.
const scheme = "Basic"

// verifiedFor is for how long credentials that were right are not verified again. It is a variable
// only for the tests.
var verifiedFor = 5 * time.Minute

var ( // variables only for the tests
	// maxWait is for how long a request waits for its verification.
	maxWait = 30 * time.Second
	// maxKnownWait is for how long a request waits whose credentials were right the last time.
	maxKnownWait = time.Second
)

// maxCredentials is the length of the longest name and password together, in bytes.
const maxCredentials = 1 << 10

// New makes the middleware. It reads the file. Errors are *handlers.KeyError. The handlers may run
// on any number of loops at once.
func New(s Settings, env handlers.Env) (handlers.Middleware, error) {
	if s.JWT != nil {
		if err := s.withoutRequest(); err != nil {
			return nil, err
		}
		a, err := newTokens(s, env)
		if err != nil {
			return nil, err
		}
		return a.around, nil
	}
	if s.Request != "" {
		a, err := newSubrequest(s, env)
		if err != nil {
			return nil, err
		}
		return a.around, nil
	}
	if err := s.withoutRequest(); err != nil {
		return nil, err
	}
	s = tags.Or(s, tags.Defaults[Settings]())
	if !http1.ValidFieldValue(s.Realm) {
		return nil, handlers.BadKey("realm", "control characters cannot be part of it")
	}
	if s.Htpasswd == "" {
		return nil, handlers.BadKey("htpasswd", "missing; expected the path of a file")
	}
	f, err := openFile(env.Path(s.Htpasswd), env.Log())
	if err != nil {
		return nil, &handlers.KeyError{Key: "htpasswd", Err: err}
	}
	g := &guard{
		file: f,
		challenge: `Basic realm="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s.Realm) +
			`", charset="UTF-8"`, // RFC 7617 section 2.1
	}
	return func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			user, status := g.check(req, resp)
			if status != 0 {
				return status
			}
			req.Layer().SetUser(user, scheme)
			return next(req, resp)
		}
	}, nil
}

// guard lets users pass.
type guard struct {
	file      *file
	challenge string
}

// check returns the user whose credentials the request has, or the status of the answer to it. It
// may wait.
func (g *guard) check(req *conn.Request, resp *conn.Response) (user string, status int) {
	// A client that has ended its sending half waits for its answer all the same. Without this, no
	// wait would succeed, and it would be judged by what the file was.
	defer req.KeepWaiting(req.KeepWaiting(true))
	t := g.file.current(req.Thread)
	field, _ := req.Layer().HeaderView("Authorization")
	// The credentials lie behind the key, so that the digest is one of consecutive bytes.
	var buf [sha256.Size + maxCredentials]byte
	n := copy(buf[:], t.key[:])
	name, password, ok := http1.BasicCredentials(buf[n:], field)
	if !ok {
		return g.refuse(resp)
	}
	digest := sha256.Sum256(buf[:n+len(name)+1+len(password)])
	e := t.users[string(name)]
	known := false // the credentials were right, for the hash that still counts
	if e != nil {
		var fresh bool
		if known, fresh = e.matches(&digest, req.Loop().Time()); fresh {
			return e.name, 0
		}
	}
	compared := t.decoy(name) // made in any case, for the same time
	if e != nil {
		compared = e
	}
	if compared == nil {
		return g.failed(req, resp)
	}
	limit := maxWait
	if known {
		limit = maxKnownWait
	}
	pass, err := gates.verify(
		req.Thread, req.RemoteAddr().Addr(), digest, compared.hash, password, limit)
	switch {
	case err == nil:
	case known: // clients that guess must not lock out the users who are in
		return e.name, 0
	default: // or the client has left
		resp.Header().Set("Retry-After", "1")
		return "", http.StatusServiceUnavailable
	}
	if !pass || e == nil {
		return g.failed(req, resp)
	}
	e.proved.Store(&proof{digest, req.Loop().Time().Add(verifiedFor)})
	return e.name, 0
}

// failed logs that credentials are wrong, for programs such as fail2ban, and asks for others. The
// line has neither name nor password: people type one into the field of the other.
func (g *guard) failed(req *conn.Request, resp *conn.Response) (user string, status int) {
	if client := req.RemoteAddr().Addr(); client.IsValid() { // not of a UNIX socket
		g.file.log.Warn("auth: a login failed", "client", client.Unmap())
	}
	return g.refuse(resp)
}

// refuse asks for other credentials.
func (g *guard) refuse(resp *conn.Response) (user string, status int) {
	resp.Header().Set("WWW-Authenticate", g.challenge)
	return "", http.StatusUnauthorized
}

// matches reports whether credentials are those that were right the last time, and whether that is
// so short a time ago that they need not be verified again.
func (e *entry) matches(digest *[sha256.Size]byte, now time.Time) (known, fresh bool) {
	p := e.proved.Load()
	known = p != nil && subtle.ConstantTimeCompare(p.digest[:], digest[:]) == 1
	return known, known && now.Before(p.until)
}
