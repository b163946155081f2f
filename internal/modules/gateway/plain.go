package gateway

import (
	"net/http"
	"strings"
	"sync"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// Framing is the framing of the variables in a protocol that does not frame body and answer: uwsgi
// or SCGI. The answer ends with the connection, or by its Content-Length.
type Framing struct {
	Format cgi.Format
	Room   int // for what is in front of the variables
	// bytes of variables that the application takes; 0: any number
	MaxSize int
	// completes the packet whose variables are b[from:], and returns it
	Seal func(b []byte, from int) []byte
}

// head writes a packet behind dst.
func (f *Framing) head(dst []byte, r *cgi.Request, v *cgi.Vars) ([]byte, error) {
	v.Begin(dst[:len(dst)+f.Room], f.Format, nil)
	r.AppendTo(v)
	b, from, err := v.Finish()
	switch {
	case err != nil:
		return nil, err
	case f.MaxSize > 0 && len(b)-from > f.MaxSize:
		return nil, cgi.ErrVarsSize
	}
	return f.Seal(b, from), nil
}

// plain is a route of a module with such a protocol.
type plain struct {
	Route
	settings upstreams.Gateway
	framing  Framing
	fixed    *cgi.Fixed
	prefix   string // of the route, without the slash at its end
	mounted  string // what applications are told of it: nothing of one that clients do not know
}

// Plain makes the handler of a route of a module with such a protocol. more, missing and accel are
// those of reverseproxy.Route.Open. Errors are *handlers.KeyError.
func Plain(module string, f Framing, s upstreams.Gateway, more upstream.Settings, missing error,
	accel reverseproxy.Accel, env handlers.Env, p *upstream.Pool) (conn.Handler, error) {
	m := &plain{settings: s, framing: f, prefix: strings.TrimSuffix(env.Prefix, "/")}
	if !around.Of(env).Internal {
		m.mounted = m.prefix
	}
	m.Ping, m.PingID = m.ping, m.prefix
	if err := m.Open(module, &m.settings, env, p, more, missing, accel); err != nil {
		return nil, err
	}
	m.fixed = m.Fix(f.Format, "")
	m.Watch()
	return m.serve, nil
}

// serve is the handler.
func (m *plain) serve(req *conn.Request, resp *conn.Response) int {
	if reverseproxy.Traces(req, resp) {
		return http.StatusMethodNotAllowed
	}
	c := plainCalls.Get().(*plainCall) // on the stack it would make that grow
	c.m = m
	c.Begin(&m.Route, c, req, resp)
	defer c.end() // also when the thread is killed
	return c.Run(int64(m.settings.MaxBodySize))
}

// plainCall is one request on its way to an upstream and back.
type plainCall struct {
	Call
	m *plain
}

var plainCalls = sync.Pool{New: func() any { return new(plainCall) }}

func (c *plainCall) end() {
	c.Free()
	*c = plainCall{}
	plainCalls.Put(c)
}

// variables are for the time in which a call writes its variables.
type variables struct {
	cgi.Request
	vars cgi.Vars
}

var variablesPool = sync.Pool{New: func() any { return new(variables) }}

// AppendHead implements Protocol.
//
// SCRIPT_NAME is where the application is mounted, and PATH_INFO what it has to find (RFC 3875
// sections 4.1.13 and 4.1.5, PEP 3333): so the prefix of the route goes to the one, and the rest of
// the path to the other. An internal prefix goes nowhere: a link with it in front would be of no
// use to a client.
func (c *plainCall) AppendHead(dst []byte) ([]byte, error) {
	b := variablesPool.Get().(*variables)
	r := &b.Request
	c.m.SetRequest(&c.Call, r)
	r.Prefix = c.m.mounted
	r.Info = cgi.Text(c.Req.Layer().PathView())[len(c.m.prefix):]
	r.Path = r.Info
	r.Fixed = c.m.fixed
	dst, err := c.m.framing.head(dst, r, &b.vars)
	b.vars = cgi.Vars{}
	b.Request.Reset()
	variablesPool.Put(b)
	return dst, err
}

// AppendBody implements Protocol.
func (c *plainCall) AppendBody(out []byte) ([]byte, error) {
	if room := cap(out) - len(out); c.Left > 0 && room > 0 {
		n, err := c.ReadBody(out[len(out) : len(out)+int(min(c.Left, int64(room)))])
		if err != nil {
			return nil, reverseproxy.BodyError(err)
		}
		out = out[:len(out)+n]
	}
	c.End = c.Left == 0
	return out, nil
}

// Take implements Protocol.
func (c *plainCall) Take(p []byte) error {
	if err := c.Answer(p, true); err != nil || !c.complete() {
		return err
	}
	return c.Ended(false)
}

// ConnectionClosed implements Protocol. Without a Content-Length nothing tells whether the
// application has said all, so a cache does not keep it.
func (c *plainCall) ConnectionClosed() error {
	switch {
	case !c.GotFirstByte:
		return upstream.ErrCut
	case !c.Begun():
		return cgi.ErrIncomplete
	case c.undelimited():
		c.Resp.Layer().MarkEndUncertain()
	}
	return c.Ended(false)
}

// Script implements Protocol.
func (c *plainCall) Script() string { return "" }

// Pause implements Protocol.
func (c *plainCall) Pause() {}
