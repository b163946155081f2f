package https

import (
	"bytes"
	"net/http"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Proof returns the layer of a site with client_ca, or at a listener with it: its requests must
// come by connections in whose handshakes a certificate was asked for as for the site. own reports
// whether that is so, at the listener of that name, for clients that ask for the name sni; else
// the request gets 421 (RFC 9110 section 15.5.20), and the client may ask again by another
// connection. Requests in clear text, which can show no certificate, get 403 where one is required.
func Proof(required bool, own func(listener, sni string) bool) handlers.Middleware {
	return func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			state := req.TLS()
			switch {
			case state != nil && !own(req.Layer().Listener(), state.ServerName):
				return http.StatusMisdirectedRequest
			case !required || req.Layer().ClientVerify() == "SUCCESS",
				state == nil && isProof(req.Layer().PathView()):
				return next(req, resp)
			}
			return http.StatusForbidden
		}
	}
}

// isProof reports whether a path is that of a proof (RFC 8555 section 8.3): a token and no more,
// since an application may take an encoded slash for one, and leave the folder.
func isProof(path []byte) bool {
	token, ok := bytes.CutPrefix(path, challenges)
	return ok && http1.ValidToken(token) && !bytes.ContainsAny(token, "%.")
}
