package rules

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/template"
)

// Middleware makes the handler that lets requests pass the rules. Rules of a route that rewrite a
// request return handlers.Again.
func (s *Set) Middleware() handlers.Middleware {
	return func(next conn.Handler) conn.Handler {
		c := &chain{Set: s, next: next, around: make([]conn.Handler, len(s.rules))}
		for i := range s.rules {
			if m := s.rules[i].around; m != nil {
				c.around[i] = m(func(req *conn.Request, resp *conn.Response) int {
					return c.act(i, req, resp)
				})
			}
		}
		return c.serve
	}
}

// chain is the rules with what comes behind them.
type chain struct {
	*Set
	next   conn.Handler
	around []conn.Handler // of those rules that have one: it, and then act
}

func (c *chain) serve(req *conn.Request, resp *conn.Response) int { return c.from(0, req, resp) }

// from lets the request pass the rules from that one on.
func (c *chain) from(i int, req *conn.Request, resp *conn.Response) int {
	for ; i < len(c.rules); i++ {
		r := &c.rules[i]
		if failed, err := r.fails(req.Layer()); err != nil {
			return c.unknown(r, req, resp, err)
		} else if failed != nil {
			continue
		}
		if r.grouped != nil {
			groups := r.groups(req.Layer())
			resp.Layer().BeforeHead(func(req *conn.Request, resp *conn.Response, status int) {
				r.grouped(req, resp, status, groups)
			})
		} else if r.hook != nil {
			// Hooks are called last first: an earlier rule has the last word, and a site's rule
			// before a route's.
			resp.Layer().BeforeHead(r.hook)
		}
		switch {
		case c.around[i] != nil && (!c.route || req.Layer().Once(r)):
			return c.around[i](req, resp)
		case r.ends():
			return c.act(i, req, resp)
		}
	}
	return c.next(req, resp)
}

// fails returns a condition that does not hold, nil if the rule is for the request. The error is
// that of a disk.
//
// A path with encoded slashes, or with empty segments, has several readings (conn.Reading): an
// application that decodes it first takes encoded slashes for slashes, one that splits it first, as
// patterns do, takes them for parts of segments; and "//" is a slash to one and has a segment in it
// to another. So that none of them gets what a rule denies, a rule is for a request if all
// conditions hold in one reading. They are asked together: where a rule is for all paths but some,
// a path has to be one of those in every reading.
func (r *rule) fails(q Asked) (condition, error) {
	c, err := r.failsIn(q, q.PathView())
	if c != nil && err == nil && reads(c) {
		for _, one := range q.OtherReadings() {
			if other, err := r.failsIn(q, one.Path); other == nil || err != nil {
				return other, err
			}
		}
	}
	return c, err
}

// failsIn is fails for one reading of the path.
func (r *rule) failsIn(q Asked, path []byte) (condition, error) {
	for _, c := range r.conditions {
		if hold, err := c.hold(q, path); !hold || err != nil {
			return c, err
		}
	}
	return nil, nil
}

// reading returns the first reading of the path in which the conditions hold, of a request for
// which they do. The conditions that do not look at the path are not asked again: they may ask a
// disk.
func (r *rule) reading(q Asked) conn.Reading {
	usual := conn.Reading{Path: q.PathView()}
	holds := func(path []byte) bool {
		for _, c := range r.conditions {
			if !reads(c) {
				continue
			}
			if hold, _ := c.hold(q, path); !hold {
				return false
			}
		}
		return true
	}
	if holds(usual.Path) {
		return usual
	}
	for _, one := range q.OtherReadings() {
		if holds(one.Path) {
			return one
		}
	}
	return usual
}

func (r *rule) ends() bool { return r.deny != 0 || r.redirect != nil || r.rewrite != nil }

// act does what the rule says, or goes on with the next one.
func (c *chain) act(i int, req *conn.Request, resp *conn.Response) int {
	r := &c.rules[i]
	switch {
	case r.deny == conn.StatusNoAnswer:
		return resp.Layer().HangUp()
	case r.deny != 0:
		return r.deny
	case r.redirect != nil:
		location, ok := r.location(req.Layer())
		switch {
		case !ok:
			return http.StatusBadRequest
		case location == "":
			return c.from(i+1, req, resp)
		}
		resp.Header().Set("Location", location)
		return r.status
	case r.rewrite != nil:
		return c.rewrite(i, req, resp)
	}
	return c.from(i+1, req, resp)
}

// location returns the address that the rule sends the client to; ok is false if it needs the host,
// which a client of HTTP/1.0 may leave out: browsers take "https:///x" for a server called x. The
// address is "" if the text stands for nothing: then the rule does not redirect.
func (r *rule) location(q Asked) (location string, ok bool) {
	s := r.source(q)
	t := r.redirect.Choose(q, s)
	switch {
	case t == nil:
		return "", true
	case !t.Fits(s.Host):
		return "", false
	}
	return t.Expand(s), true
}

// groups returns what the groups of the rule's expression have matched, as a field of a header may
// have it.
func (r *rule) groups(q Asked) (all [][]byte) {
	for _, c := range r.source(q).Captures {
		if c.Sent == "" {
			c.Sent = string(http1.AppendPath(nil, []byte(c.Text)))
		}
		all = append(all, []byte(c.Sent))
	}
	return all
}

func (c *chain) rewrite(i int, req *conn.Request, resp *conn.Response) int {
	r := &c.rules[i]
	target, ok := r.target(req.Layer())
	switch {
	case !ok:
		return http.StatusBadRequest
	case target == nowhere:
		return c.from(i+1, req, resp)
	case target == "":
		return c.next(req, resp)
	}
	switch err := req.Layer().Rewrite(target); {
	case errors.Is(err, conn.ErrRewrites):
		c.env.Log().Error("rules: a request is rewritten without end", "rule", r.name, "target",
			req.Target(), "path", req.Path())
		return http.StatusInternalServerError
	case err != nil:
		return http.StatusBadRequest
	case c.route:
		return handlers.Again
	}
	return c.next(req, resp)
}

// nowhere is the target of a text that stands for nothing: the rule does not rewrite.
const nowhere = "-"

// target returns what the rule makes of a request, "" if that is what it is already. ok is false if
// the client has asked for something of which no path can be made, or one with dot segments: these
// come together from the rule's text and the client's ("/x/{1}" and "../data"), and would lead to
// where the rules before have not looked. The query stays as it is if the rule says nothing of it.
func (r *rule) target(q Asked) (target string, ok bool) {
	s := r.source(q)
	t := r.rewrite.Choose(q, s)
	switch {
	case t == nil:
		return nowhere, true
	case !t.Fits(s.Host):
		return "", false
	}
	target = t.Expand(s)
	if query := q.QueryView(); !t.HasQuery() && len(query) > 0 {
		target += "?" + http1.EscapeQuery(string(query))
	}
	raw, query, _ := strings.Cut(target, "?")
	if _, err := http1.CleanPath(nil, []byte(raw)); err != nil || template.HasDots(raw) {
		return "", false
	}
	if bytes.Equal(http1.Sent([]byte(raw)), q.SentPathView()) && query == string(q.QueryView()) {
		return "", true
	}
	return target, true
}

// source is the parts of a request for a template: in a path as they were sent, and as values as
// they are in the reading for which the rule holds.
func (r *rule) source(q Asked) *template.Source {
	read, sent := r.reading(q), q.SentPathView()
	under := http1.AppendBelow(nil, sent, len(strings.TrimSuffix(q.Prefix(), "/")))
	if len(under) == 0 {
		under = []byte("/")
	}
	_, query, asks := bytes.Cut(q.AppendQuery(nil), []byte{'?'})
	s := &template.Source{
		Host:  string(q.HostView()),
		Path:  template.Part{Text: string(read.Path), Sent: string(sent)},
		Below: template.Part{Text: string(read.Read(under)), Sent: string(under)},
		Query: string(query),
		Asks:  asks,
	}
	if r.expression != nil {
		for _, at := range r.expression.captures(read.Path) {
			s.Captures = append(s.Captures, template.Part{Text: string(read.Path[at[0]:at[1]]),
				Sent: string(read.Sent(sent, at[0], at[1]))})
		}
	}
	return s
}

// below returns what a reading of the path has below the route's prefix; it begins with a slash,
// which may be an encoded one.
func below(q Asked, path []byte) []byte {
	if n := len(strings.TrimSuffix(q.Prefix(), "/")); n < len(path) {
		return path[n:]
	}
	return []byte("/")
}

// unknown answers a request if stat fails other than by absence, so that it is not known whether a
// rule applies.
func (c *chain) unknown(r *rule, req *conn.Request, resp *conn.Response, err error) int {
	c.env.Log().Warn("rules: cannot look for a file", "rule", r.name, "request_id", req.ID(),
		"path", req.Path(), "error", err)
	switch {
	case errors.Is(err, os.ErrPermission):
		return http.StatusForbidden
	case sysio.Exhausted(err), waited(err):
		resp.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
