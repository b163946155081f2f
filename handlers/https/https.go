// Package https is the keys `https` and `hsts` of a site: they send the clients of http to the same
// address of https, and keep them there.
//
//	https = "redirect"
//	hsts = { max_age = "8760h" }
//
//	https.go  settings, and the redirect
//	hsts.go   the field Strict-Transport-Security
//	proof.go  client_ca: by which connections requests may come
package https

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/redirect"
)

// Settings are the keys of a site.
type Settings struct {
	// HTTPS sends clients of http to https; empty: http is answered as https is.
	HTTPS string `toml:"https" oneof:"redirect"`
	// HSTS tells browsers to use https alone.
	HSTS *HSTS `toml:"hsts"`
}

// challenges is below which path a certificate authority looks for the proof that the host is the
// operator's. It asks by http at first, because there may be no certificate yet (RFC 8555 section
// 8.3).
var challenges = []byte("/.well-known/acme-challenge/")

// Redirects reports whether a request for that clean path, secure or not, is sent to https.
func (s Settings) Redirects(path []byte, secure bool) bool {
	return s.HTTPS == "redirect" && !secure && !bytes.HasPrefix(path, challenges)
}

// New makes the middleware of a site, nil if the settings ask for nothing. Errors are
// *handlers.KeyError. port returns the port of the https address; it is called once, at the first
// redirect, on any loop.
func New(s Settings, port func() int) (handlers.Middleware, error) {
	var layers []handlers.Middleware
	if s.HTTPS == "redirect" {
		layers = append(layers, s.redirectTo(port))
	}
	if s.HSTS != nil {
		field, err := s.HSTS.field()
		if err != nil {
			return nil, &handlers.KeyError{Key: "hsts", Err: err}
		}
		layers = append(layers, hstsMiddleware(field))
	}
	return handlers.Chain(layers...), nil
}

// redirectTo redirects requests that are not secure. If a trusted proxy is between the client and
// this server, the client knows the proxy's ports and not those of this server; then the address
// has the usual port.
func (s Settings) redirectTo(port func() int) handlers.Middleware {
	own := sync.OnceValue(func() conn.Handler { return redirectHandler(port()) })
	usual := redirectHandler(usualPort)
	return func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			switch {
			case !s.Redirects(req.Layer().PathView(), req.Secure()):
				return next(req, resp)
			case req.Layer().Proxied() || req.RemoteAddr() != req.PeerAddr():
				return usual(req, resp)
			}
			return own()(req, resp)
		}
	}
}

const usualPort = 443

// redirectHandler makes the handler that redirects to the https address with that port. Both
// statuses are permanent, and let clients change the address that they have stored. Every client
// knows 301, and many make a GET of a POST then; 308 keeps method and body (RFC 9110 section
// 15.4.9).
func redirectHandler(port int) conn.Handler {
	to := "https://{host}{uri}"
	if port != usualPort {
		to = "https://{host}:" + strconv.Itoa(port) + "{uri}"
	}
	handler := func(status int) conn.Handler {
		h, err := redirect.New(redirect.Settings{To: to, Status: status}, handlers.Env{})
		if err != nil {
			panic(err) // the address is valid with every port
		}
		return h
	}
	get, other := handler(http.StatusMovedPermanently), handler(http.StatusPermanentRedirect)
	return func(req *conn.Request, resp *conn.Response) int {
		if m := req.Method(); m == http.MethodGet || m == http.MethodHead {
			return get(req, resp)
		}
		return other(req, resp)
	}
}
