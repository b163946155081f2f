package fastcgi

import "github.com/lwango/lwango/internal/cgi"

// appendHead appends BEGIN_REQUEST and the parameters to dst.
func (c *call) appendHead(dst []byte) ([]byte, error) {
	b := paramsPool.Get().(*params)
	r := &b.Request
	r.Method = c.Req.Method()
	r.Target = c.Req.Target()
	r.Query = c.Req.RawQuery()
	r.Front = c.target.Query
	r.Proto = c.Req.Proto()
	r.Host = c.Req.Host()
	r.TLS = c.Req.Secure()
	r.User, r.AuthType = c.Req.User(), c.Req.AuthType()
	r.Remote = c.Req.RemoteAddr()
	r.Local = c.Req.LocalAddr()
	r.Proxied = c.Req.Layer().Proxied()
	r.Length = c.Length
	for name, value := range c.Req.Header().All() {
		r.Fields = append(r.Fields, cgi.Field{Name: name, Value: value})
	}
	r.Prefix = c.prefix
	r.Script = c.target.Name
	r.Info = c.target.Info
	r.Root = c.tree.root
	r.Server = cgi.ServerName(c.Env.Hosts, r.Host)
	r.Params = c.m.params
	r.Fixed = c.tree.params
	if r.Fixed.Varies() {
		r.Path = c.Req.SubPath()
	}
	r.ID = c.Req.Layer().IDView()
	r.Underscores = c.m.set.Underscores
	r.Trusted, r.Own = c.m.set.TrustedFields, c.Req.Layer()

	b.head.Begin(dst, c.m.set.KeepConn)
	r.AppendTo(&b.head.Vars)
	dst, err := b.head.Finish()
	b.reset()
	paramsPool.Put(b)
	return dst, err
}
