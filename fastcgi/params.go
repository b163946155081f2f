package fastcgi

import "strings"

// AppendHead implements gateway.Protocol: BEGIN_REQUEST and the parameters.
func (c *call) AppendHead(dst []byte) ([]byte, error) {
	c.dec.Reset()
	b := paramsPool.Get().(*params)
	r := &b.Request
	c.m.SetRequest(&c.Call, r)
	r.Front = c.target.Query
	r.Prefix = strings.TrimSuffix(c.Req.Prefix(), "/")
	r.Script = c.target.Name
	r.Info = c.target.Info
	r.Root = c.tree.root
	r.Fixed = c.tree.params
	if r.Fixed.Varies() {
		r.Path = c.Req.SubPath()
	}
	b.head.Begin(dst, c.m.set.KeepConn)
	r.AppendTo(&b.head.Vars)
	dst, err := b.head.Finish()
	b.reset()
	paramsPool.Put(b)
	return dst, err
}
