package handlers

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/route"
)

// Mux sends requests to the handlers of patterns, which are those of net/http.ServeMux: "[METHOD
// ][HOST]/[PATH]", where a segment of the path may be {name}, and the last one {name...} or {$}. Of
// several patterns that match, the most specific one wins, whatever the order in which they were
// registered. GET stands for HEAD, too. If only the method does not fit, the answer is 405 with
// Allow. A path that is not clean, or that lacks a slash at its end which a pattern has, is
// redirected (307) if the other form matches.
//
// There are these differences. Encoded dot segments ("%2e%2e") are dot segments: the path is
// cleaned after it was decoded, and no value of a wildcard has one. A clean path may have encoded
// slashes, which are part of a segment: /items/a%2Fb is "GET /items/{id}", with the id a/b. Hosts
// are compared whatever the case of their letters. Patterns that can match no request are refused.
// A path that matches nothing when it is clean is 404, without a redirection before.
//
// The zero value is an empty Mux. Handlers are registered from any goroutine, also while requests
// are served. See Use for what comes before the first request.
type Mux struct {
	mu       sync.Mutex
	patterns []*route.Pattern // a Number is the index in entries
	entries  []entry          // only appended to
	reserved []*route.Pattern // what has a handler elsewhere

	table atomic.Pointer[table] // nil: to be made of the patterns

	// Of Use: the outermost layer, nil if there is none, and where the next one goes.
	outer conn.Handler
	inner *layer
}

// entry is what a pattern leads to.
type entry struct {
	handler conn.Handler
	text    string
}

// table is what requests are looked up in. It does not change.
type table struct {
	tree    route.Tree
	entries []entry
}

// NewMux makes an empty Mux.
func NewMux() *Mux { return new(Mux) }

// Handle registers h for a pattern. It panics if the pattern is not valid, or conflicts with one
// that was registered before: if both match some requests, and neither is more specific. The text
// of the panic has both patterns and where they were registered.
func (m *Mux) Handle(pattern string, h conn.Handler) {
	if h == nil {
		panic(fmt.Sprintf("lwango: Handle: %q has no handler", pattern))
	}
	p, err := m.parse(pattern)
	if err == nil {
		err = m.add(p, h)
	}
	if err != nil {
		panic(fmt.Sprintf("lwango: Handle: %v", err))
	}
}

func (m *Mux) parse(pattern string) (*route.Pattern, error) {
	p, err := route.Parse(pattern)
	if err != nil {
		return nil, fmt.Errorf("%q (%s): %w", pattern, Caller(), err)
	}
	p.Caller = Caller()
	return p, nil
}

func (m *Mux) add(p *route.Pattern, h conn.Handler) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.conflict(p); err != nil {
		return err
	}
	p.Number = len(m.entries)
	m.patterns = append(m.patterns, p)
	m.entries = append(m.entries, entry{h, p.Text})
	m.table.Store(nil)
	return nil
}

func (m *Mux) conflict(p *route.Pattern) error {
	for _, all := range [...][]*route.Pattern{m.patterns, m.reserved} {
		for _, before := range all {
			if err := route.Conflict(p, before); err != nil {
				return err
			}
		}
	}
	return nil
}

// Reserve refuses patterns that conflict with prefix and what is below it, because that has a
// handler elsewhere. prefix is a path without wildcards and encoding, as a Route has it. It is an
// error if it conflicts itself.
func (m *Mux) Reserve(prefix string) error {
	var all []*route.Pattern
	exact := string(http1.AppendPath(nil, []byte(strings.TrimSuffix(prefix, "/"))))
	if exact != "" {
		all = append(all, nil)
	}
	all = append(all, nil)
	for i, text := range []string{exact + "/", exact}[:len(all)] {
		p, err := m.parse(text)
		if err != nil {
			return err
		}
		p.Text = prefix
		all[i] = p
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range all {
		if err := m.conflict(p); err != nil {
			return err
		}
	}
	m.reserved = append(m.reserved, all...)
	return nil
}

// Use puts a layer around all that m does, its answers 404, 405 and redirections included; the
// first one is the outermost. Use calls layer once, and comes before the first request. The layer
// sees PathValue and Pattern of a request when next has returned; a layer of a Group sees them
// before.
func (m *Mux) Use(layers ...Middleware) {
	for _, l := range layers {
		inner := &layer{next: m.route}
		h := Checked(l, Caller())(inner.serve)
		if m.inner == nil {
			m.outer = h
		} else {
			m.inner.next = h
		}
		m.inner = inner
	}
}

// Group makes a group of handlers whose patterns begin with prefix, which may have a host and
// wildcards, and is "" for none. The layers are around each of the handlers, the first one
// outermost; see Group.Use.
func (m *Mux) Group(prefix string, layers ...Middleware) *Group {
	return (&Group{mux: m}).Group(prefix, layers...)
}

// Serve is a conn.Handler: it calls the handler of the request's pattern.
func (m *Mux) Serve(req *conn.Request, resp *conn.Response) int {
	if m.outer != nil {
		return m.outer(req, resp)
	}
	return m.route(req, resp)
}

// route is Serve within the layers of m.
func (m *Mux) route(req *conn.Request, resp *conn.Response) int {
	t := m.ready()
	f := t.find(req)
	if f.pattern == nil {
		return t.refuse(req, resp)
	}
	return t.serve(&f, req, resp)
}

// ready returns the table of all patterns.
func (m *Mux) ready() *table {
	if t := m.table.Load(); t != nil {
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &table{entries: m.entries}
	for _, p := range m.patterns {
		t.tree.Add(p)
	}
	m.table.Store(t)
	return t
}

// Snapshot returns the handlers that m has now, without the layers of Use, nil if there are none.
// What m is told later has no effect on it.
func (m *Mux) Snapshot() *Mux {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.patterns) == 0 {
		return nil
	}
	return &Mux{patterns: slices.Clone(m.patterns), entries: slices.Clone(m.entries)}
}

// Prefixes returns the paths of all patterns up to their first wildcards, without duplicates, "/"
// for an empty one.
func (m *Mux) Prefixes() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.patterns {
		all = append(all, p.Prefix)
		if p.Prefix == "" {
			all[len(all)-1] = "/"
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// found is what a request has come to.
type found struct {
	pattern *route.Pattern // nil: nothing
	values  [][2]uint32
	path    []byte // in the form of http1.SplitPath
	action  action
}

type action uint8

const (
	call     action = iota
	tidy            // redirect to the clean path
	addSlash        // redirect to the path with a slash at its end
)

// find looks for the pattern of a request.
func (t *table) find(req *conn.Request) found {
	path, clean := req.Layer().SegmentsView()
	f := t.look(req.Method(), req.Layer().HostView(), path, req.Layer().PathParts())
	if req.Layer().Rewrites() > 0 { // no client is to see a target of the server's own
		if f.action == addSlash {
			f.action = call
			l := req.Layer()
			f.pattern, f.values = t.tree.Find(req.Method(), l.HostView(), path, l.PathParts())
		}
		return f
	}
	if !clean && f.action == call {
		f.action = tidy
	}
	return f
}

// look is find for a path in the form of http1.SplitPath. values is an empty slice.
func (t *table) look(method string, host, path []byte, values [][2]uint32) (f found) {
	f.path = path
	f.pattern, f.values = t.tree.Find(method, host, path, values)
	if p := t.tree.Slashed(method, host, path, f.pattern); p != nil {
		f.pattern, f.action = p, addSlash
	}
	return f
}

// serve does what was found.
func (t *table) serve(f *found, req *conn.Request, resp *conn.Response) int {
	if f.action == call {
		req.Layer().SetPrefix(f.pattern.Prefix)
		req.Layer().SetPattern(f.pattern.Text, f.pattern.Names, f.values)
		return t.entries[f.pattern.Number].handler(req, resp)
	}
	// The path has one slash in front, and no other character of it can be taken for one: so the
	// address is on this server.
	to := http1.AppendMerged(nil, req.Layer().SentPathView())
	if f.action == addSlash {
		to = append(to, '/')
	}
	to = req.Layer().AppendQuery(to)
	resp.Header().Set("Location", string(to))
	return http.StatusTemporaryRedirect
}

// refuse answers a request that no pattern matches.
func (t *table) refuse(req *conn.Request, resp *conn.Response) int {
	path, _ := req.Layer().SegmentsView()
	if allow := t.tree.Allowed(req.Layer().HostView(), path); allow != "" {
		resp.Header().Set("Allow", allow)
		return http.StatusMethodNotAllowed
	}
	return http.StatusNotFound
}

// Caller returns the line of the program that has called this module, as file:line.
func Caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		inside := false
		for _, own := range ownPackages {
			inside = inside || strings.HasPrefix(f.Function, own)
		}
		if !inside && f.File != "" {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return "unknown caller"
		}
	}
}

// ownPackages are those by which a program's registrations pass, with the dot behind their names.
var ownPackages = []string{"github.com/lwango/lwango.", "github.com/lwango/lwango/handlers.",
	"github.com/lwango/lwango/internal/process/server."}
