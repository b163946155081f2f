package fastcgi

import "github.com/lwango/lwango/fastcgi/internal/cgi"

// appendHead appends BEGIN_REQUEST and the parameters to dst.
func (c *call) appendHead(dst []byte) ([]byte, error) {
	b := paramsPool.Get().(*params)
	r := &b.Request
	r.Method = c.req.Method()
	r.Target = c.req.Target()
	r.Query = c.req.RawQuery()
	r.Front = c.target.Query
	r.Proto = c.req.Proto()
	r.Host = c.req.Host()
	r.TLS = c.req.Secure()
	r.User, r.AuthType = c.req.User(), c.req.AuthType()
	r.Remote = c.req.RemoteAddr()
	r.Local = c.req.LocalAddr()
	r.Proxied = c.req.Proxied()
	r.Length = c.length
	for name, value := range c.req.Header().All() {
		r.Fields = append(r.Fields, cgi.Field{Name: name, Value: value})
	}
	r.Prefix = c.prefix
	r.Script = c.target.Name
	r.Info = c.target.Info
	r.Root = c.tree.root
	r.Server = cgi.ServerName(c.m.env.Hosts, r.Host)
	r.Params = c.m.params
	r.Fixed = c.tree.params
	if r.Fixed.Varies() {
		r.Path = c.req.SubPath()
	}
	r.ID = c.req.IDView()
	r.Underscores = c.m.set.Underscores
	r.Trusted, r.Own = c.m.set.TrustedFields, c.req

	b.head.Begin(dst, c.m.set.KeepConn)
	r.AppendTo(&b.head)
	dst, err := b.head.Finish()
	b.reset()
	paramsPool.Put(b)
	return dst, err
}
