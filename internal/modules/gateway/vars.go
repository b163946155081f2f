package gateway

import (
	"slices"

	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// SetRequest sets the values of the call's request in r. The caller adds the script, its root, and
// the route's Fixed.
func (route *Route) SetRequest(c *Call, r *cgi.Request) {
	l := c.Req.Layer()
	r.Method = c.Req.Method()
	r.Target = cgi.Text(l.OriginalTargetView())
	r.Query = cgi.Text(l.QueryView())
	r.Proto = c.Req.Proto()
	r.Host = cgi.Text(l.HostView())
	if r.TLS = c.Req.Secure(); r.TLS {
		r.Client = (*cgi.Certificate)(placeholder.CertificateOf(c.Req))
	}
	r.User, r.AuthType = c.Req.User(), c.Req.AuthType()
	r.Remote = c.Req.RemoteAddr()
	r.Local = c.Req.LocalAddr()
	r.Proxied = l.Proxied()
	r.Length = c.Length
	r.Fields = l.FieldViews()
	r.Server = cgi.ServerName(c.Env.Hosts, r.Host)
	r.Params = route.params
	r.ID = l.IDView()
	r.Underscores = c.Underscores
	if route.others {
		r.Other = func(dst []byte, name string) []byte {
			i := slices.IndexFunc(route.texts, func(p placeholder.Piece) bool { return p.Name == name })
			return placeholder.Append(dst, c.Req, route.texts[i:i+1])
		}
	}
	r.Trusted, r.Own = route.set.TrustedFields, l
}
