package fastcgi

import (
	"github.com/lwango/lwango/fastcgi/internal/cgi"
	"github.com/lwango/lwango/fastcgi/internal/wire"
)

// appendHead appends BEGIN_REQUEST and the parameters to dst.
func (c *call) appendHead(dst []byte) ([]byte, error) {
	list := fieldLists.Get().(*[]cgi.Field)
	fields := (*list)[:0]
	for name, value := range c.req.Header().All() {
		fields = append(fields, cgi.Field{Name: name, Value: value})
	}
	r := cgi.Request{
		Method: c.req.Method(),
		Target: c.req.Target(),
		Query:  c.req.RawQuery(),
		Proto:  c.req.Proto(),
		Host:   c.req.Host(),
		TLS:    c.req.TLS() != nil,

		Remote: c.req.RemoteAddr(),
		Local:  c.req.LocalAddr(),

		Length: c.length,
		Fields: fields,

		Prefix: c.prefix,
		Script: c.target.Name,
		Info:   c.target.Info,
		Root:   c.root,

		Software: "lwango",
		Params:   c.params,
	}
	var h wire.Head
	h.Begin(dst, wire.Responder, c.group.maxIdle > 0)
	r.AppendTo(&h)
	dst, err := h.Finish()
	clear(fields)
	*list = fields
	fieldLists.Put(list)
	return dst, err
}
