package gateway

import "github.com/lwango/lwango/internal/cgi"

// Tell says what the server knows of the call's request. The script, its root, and what is fixed at
// the route are for the caller to add.
func (route *Route) Tell(c *Call, r *cgi.Request) {
	r.Method = c.Req.Method()
	r.Target = c.Req.Target()
	r.Query = c.Req.RawQuery()
	r.Proto = c.Req.Proto()
	r.Host = c.Req.Host()
	r.TLS = c.Req.Secure()
	r.User, r.AuthType = c.Req.User(), c.Req.AuthType()
	r.Remote = c.Req.RemoteAddr()
	r.Local = c.Req.LocalAddr()
	r.Proxied = c.Req.Layer().Proxied()
	r.Length = c.Length
	r.Fields = c.Req.Layer().FieldViews()
	r.Server = cgi.ServerName(c.Env.Hosts, r.Host)
	r.Params = route.params
	r.ID = c.Req.Layer().IDView()
	r.Underscores = c.Underscores
	r.Trusted, r.Own = route.set.TrustedFields, c.Req.Layer()
}
