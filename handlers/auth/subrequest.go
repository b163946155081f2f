package auth

import (
	"bytes"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/http1"
)

// subrequest lets a route of the site say who may pass, as auth_request of nginx does.
type subrequest struct {
	path, query string
	copied      []string // names of the answer's fields that go into the request
	reserved    []string // these and user: those that the client cannot give the request
	replaced    []string // reserved, and the names of all that the subrequest has
	toClient    []string // names of those that go to the client
	user        string   // name of the one with the user; empty: none
	fields      []field  // for the route
	maxBody     int      // bytes of a whole answer; 0: the client gets none
	login       *login   // nil: a client that may not pass is sent nowhere
	cache       *cache   // nil: none
	routes      *handlers.SiteRoutes
	log         *slog.Logger
}

// field is one of request_headers.
type field struct {
	name  string
	value placeholder.Text
}

// Fields that tell the route of the client's request: those of nginx's manual and Authelia, and
// those that Traefik and Caddy send.
const (
	originalMethod  = "X-Original-Method"
	originalURI     = "X-Original-URI"
	originalURL     = "X-Original-URL"
	originalHost    = "X-Original-Host"
	forwardedMethod = "X-Forwarded-Method"
	forwardedURI    = "X-Forwarded-Uri"
)

// wholeAnswer is how much an answer for the client may have, in bytes: a redirect, or a page to log
// in.
const wholeAnswer = 1 << 20

// withoutRequest reports a key that has no meaning without request.
func (s *Settings) withoutRequest() error {
	for _, key := range []struct {
		name string
		set  bool
	}{
		{"copy_headers", s.CopyHeaders != nil}, {"request_headers", s.RequestHeaders != nil},
		{"answer_headers", s.AnswerHeaders != nil}, {"user_header", s.UserHeader != ""},
		{"whole_answer", s.WholeAnswer}, {"login", s.Login != ""}, {"cache", s.Cache != 0},
		{"cache_by", s.CacheBy != ""},
	} {
		if key.set {
			return handlers.BadKey(key.name, "is for the answer to request, which is missing")
		}
	}
	return nil
}

// newSubrequest checks the settings.
func newSubrequest(s Settings, env handlers.Env) (*subrequest, error) {
	switch {
	case s.Htpasswd != "":
		return nil, handlers.BadKey("request", "is in place of htpasswd; expected one of them")
	case s.Realm != "":
		return nil, handlers.BadKey("realm", "is for htpasswd; with request, the route names it")
	}
	path, query, _ := strings.Cut(s.Request, "?")
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == '#' }
	clean, err := http1.CleanPath(nil, []byte(path))
	if err != nil || string(clean) != path || strings.Contains(path, "#") ||
		strings.ContainsFunc(query, odd) {
		return nil, handlers.BadKey("request",
			"expected the path of a route, such as \"/auth-check\", not %q", s.Request)
	}
	its := around.Of(env)
	routes := its.Routes
	if routes.Of(path) == nil {
		return nil, handlers.BadKey("request", "the site has no route for %s", path)
	}
	for _, name := range s.CopyHeaders {
		if err := handlers.CheckField(name); err != nil {
			return nil, handlers.BadKey("copy_headers", "%s: %w", name, err)
		}
		if reason := unfit(name); reason != "" {
			return nil, handlers.BadKey("copy_headers", "%s %s", name, reason)
		}
	}
	a := &subrequest{path: path, query: query, copied: s.CopyHeaders, toClient: s.AnswerHeaders,
		user: s.UserHeader, routes: routes, log: env.Log()}
	if err := a.readFields(&s, its.Maps); err != nil {
		return nil, err
	}
	a.reserved = slices.Clone(a.copied)
	if a.user != "" {
		a.reserved = append(a.reserved, a.user)
	}
	a.replaced = append(slices.Clone(a.reserved), originalMethod, originalURI, originalURL,
		originalHost, forwardedMethod, forwardedURI)
	for i := range a.fields {
		a.replaced = append(a.replaced, a.fields[i].name)
	}
	if s.WholeAnswer {
		a.maxBody = wholeAnswer
	}
	if a.login, err = readLogin(&s, its.Maps); err != nil {
		return nil, err
	}
	switch {
	case s.Cache > 0 && s.CacheBy == "host" && s.UserHeader == "":
		return nil, handlers.BadKey("cache_by", "\"host\" needs user_header, since only an answer "+
			"that names a user holds for all targets")
	case s.Cache > 0:
		a.cache = newCache(&s)
	case s.CacheBy != "":
		return nil, handlers.BadKey("cache_by", "is for cache, which is missing")
	}
	return a, nil
}

// readFields reads request_headers, answer_headers and user_header. The error is a
// *handlers.KeyError.
func (a *subrequest) readFields(s *Settings, texts *placeholder.Maps) error {
	for _, name := range slices.Sorted(maps.Keys(s.RequestHeaders)) {
		text := s.RequestHeaders[name]
		value, err := texts.Parse(text)
		if err == nil {
			err = handlers.CheckField(name, text)
		}
		if err != nil {
			return handlers.BadKey("request_headers", "%s: %w", name, err)
		}
		switch {
		case http1.HopByHop(name), http1.Owned(name):
			return handlers.BadKey("request_headers", "%s is about the message itself", name)
		case http1.IsForwarding(name), http1.SameVariable(name, conn.RequestIDField):
			return handlers.BadKey("request_headers", "%s is set by the server itself", name)
		case a.sets(name):
			return handlers.BadKey("request_headers", "%s is given twice", name)
		}
		a.fields = append(a.fields, field{name, value})
	}
	for _, name := range s.AnswerHeaders {
		if err := handlers.CheckField(name); err != nil {
			return handlers.BadKey("answer_headers", "%s: %w", name, err)
		}
	}
	if s.UserHeader != "" {
		if err := handlers.CheckField(s.UserHeader); err != nil {
			return handlers.BadKey("user_header", "%s: %w", s.UserHeader, err)
		}
		if http1.HopByHop(s.UserHeader) || http1.Owned(s.UserHeader) { // it is taken from requests
			return handlers.BadKey("user_header", "%s is about the message itself", s.UserHeader)
		}
	}
	return nil
}

// sets reports whether request_headers has a field of that name, or one that CGI and its kin cannot
// tell from it.
func (a *subrequest) sets(name string) bool {
	return slices.ContainsFunc(a.fields,
		func(f field) bool { return http1.SameVariable(f.name, name) })
}

// unfit returns why a field cannot be copied, "" if it can: what a module would silently leave out
// is no way to tell an application who the user is.
func unfit(name string) string {
	is := func(s string) bool { return ascii.EqualFold(name, s) }
	switch {
	case ascii.HasPrefixFold(name, "Proxy"):
		return "is not passed on, as all fields whose names begin with Proxy"
	case strings.Contains(name, "_"):
		return "is not passed on, as other fields with an underscore; expected a hyphen"
	case is("Host"), is("Expect"), is("TE"):
		return "is about the message itself"
	case is("Via"), http1.IsForwarding(name) && !is("X-Real-IP"):
		return "tells an application of the client's connection, not of the user"
	case is(conn.RequestIDField):
		return "is set by the server itself"
	}
	return ""
}

func (a *subrequest) around(next conn.Handler) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		if status := a.check(req, resp); status != 0 {
			return status
		}
		return next(req, resp)
	}
}

// check asks the route, and returns 0 if the request may pass, else the status of the answer to it.
// It waits for the route.
func (a *subrequest) check(req *conn.Request, resp *conn.Response) (status int) {
	if namesOf(req, a.reserved) {
		return http.StatusBadRequest
	}
	var d digest
	if a.cache != nil {
		d = a.cache.digest(req)
		if known := a.cache.find(d, req.Loop().Time()); known != nil {
			a.copyFields(req, resp, known)
			return 0
		}
	}
	status, header, body, err := a.send(req)
	switch {
	case err == nil && status >= 200 && status <= 299:
		said := &answer{user: a.userOf(&header)}
		for _, name := range a.copied {
			said.copied = appendFields(said.copied, name, &header)
		}
		for _, name := range a.toClient {
			said.toClient = appendFields(said.toClient, name, &header)
		}
		if a.cache != nil && !header.Has("Set-Cookie") { // which is for this client alone
			a.cache.add(d, said, req.Loop().Time())
		}
		a.copyFields(req, resp, said)
		return 0
	case err == nil && a.maxBody > 0:
		return a.relay(resp, status, &header, body)
	case err == nil && status == http.StatusUnauthorized && a.login.fits(req):
		return a.login.send(req, resp, &header)
	case err == nil && (status == http.StatusUnauthorized || status == http.StatusForbidden):
		for _, name := range []string{"WWW-Authenticate", "Set-Cookie"} {
			for _, value := range header.Values(name) {
				resp.Header().Add(name, value)
			}
		}
		return status
	case req.Gone(): // which ends the waits of the route, too
	case err == nil:
		a.log.Error("auth: the answer of the route that is asked is neither 2xx nor 401 nor 403",
			"asked", a.path, "status", status, "request_id", req.ID(), "target", req.Target())
	default:
		a.log.Error("auth: the route that is asked does not answer", "asked", a.path, "error", err,
			"request_id", req.ID(), "target", req.Target())
	}
	return http.StatusInternalServerError
}

// send sends the subrequest.
func (a *subrequest) send(
	req *conn.Request) (status int, header conn.Header, body []byte, err error) {
	method, uri, host := req.Method(), judged(req.Layer().OriginalTargetView()), req.Host()
	url := urlOf(req, uri)
	fields := make([]conn.Field, 0, len(a.replaced))
	for _, f := range [...]conn.Field{
		{Name: originalMethod, Value: method}, {Name: originalURI, Value: uri},
		{Name: originalURL, Value: url}, {Name: originalHost, Value: host},
		{Name: forwardedMethod, Value: method}, {Name: forwardedURI, Value: uri},
	} {
		if !a.sets(f.Name) {
			fields = append(fields, f)
		}
	}
	for i := range a.fields { // of this request, and not of the one that asks
		if value := appendValue(nil, req, a.fields[i].value); len(value) > 0 {
			fields = append(fields, conn.Field{Name: a.fields[i].name, Value: string(value)})
		}
	}
	handler := func(sub *conn.Request, resp *conn.Response) int {
		sub.Layer().ReplaceHeaders(a.replaced, fields)
		return a.routes.Serve(sub, resp)
	}
	return req.Layer().SubrequestInMemory(a.path, a.query, a.maxBody, handler)
}

// urlOf returns the address that the client has asked for, of which uri is "*", or path and query.
func urlOf(req *conn.Request, uri string) string {
	if uri[0] != '/' {
		return uri
	}
	return placeholder.Scheme(req) + "://" + req.Host() + uri
}

// judged returns a target, in the form of conn.RequestLayer.OriginalTargetView or AppendTarget, as
// the route is to judge it: without empty segments, as an upstream gets it unless its route has
// merge_slashes = false. The route must not judge "/x//admin" while "/x/admin" is served.
func judged(target []byte) string {
	path, query, asks := bytes.Cut(target, []byte{'?'})
	out := http1.AppendMerged(make([]byte, 0, len(target)), path)
	if asks {
		out = append(append(out, '?'), query...)
	}
	return string(out)
}

// appendValue appends the value of one of request_headers.
func appendValue(out []byte, req *conn.Request, text placeholder.Text) []byte {
	for i, p := range text {
		if p.Name == "uri" {
			out = append(out, judged(req.Layer().AppendTarget(nil))...)
		} else {
			out = placeholder.Append(out, req, text[i:i+1])
		}
	}
	return out
}

// userOf returns the user that an answer names, "" for none.
func (a *subrequest) userOf(header *conn.Header) string {
	if a.user == "" {
		return ""
	}
	name := header.Get(a.user)
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "" // a tab is one of those that the access log has not
	}
	return strings.Clone(name)
}

// copyFields gives a request that may pass what the route has said of it, in place of what the
// client says in fields of the same names, and the client the fields of answer_headers. The module
// that answers may clear what is in the header now, so a hook adds them.
func (a *subrequest) copyFields(req *conn.Request, resp *conn.Response, said *answer) {
	req.Layer().ReplaceHeaders(a.reserved, said.copied)
	if said.user != "" {
		req.Layer().SetUser(said.user, "")
	}
	if len(said.toClient) > 0 {
		resp.Layer().BeforeHead(func(_ *conn.Request, resp *conn.Response, _ int) {
			for _, f := range said.toClient {
				resp.Header().Add(f.Name, f.Value)
			}
		})
	}
}

// relay answers with the whole answer of the route. One without a body may get an error page.
func (a *subrequest) relay(resp *conn.Response, status int, header *conn.Header, body []byte) int {
	for name, value := range header.All() {
		if http1.HopByHop(name) || http1.Framing(name) || ascii.EqualFold(name, "Trailer") {
			continue
		}
		resp.Header().Add(strings.Clone(name), strings.Clone(value))
	}
	if len(body) > 0 || status < 400 {
		resp.Layer().Relay(status, "")
		resp.SetBody(body)
	}
	return status
}

// namesOf reports whether the field Connection names one of the fields that the server alone gives
// a request. A module that passes the request on would remove that field, so a client could take
// back what the server says of it (RFC 9110 section 7.6.1). For fastcgi "Remote_User" names it,
// too.
func namesOf(req *conn.Request, reserved []string) (found bool) {
	list, next := req.Layer().HeaderViewFrom("Connection", 0)
	for ; next > 0 && !found; list, next = req.Layer().HeaderViewFrom("Connection", next) {
		ascii.EachElement(list, func(option []byte) bool {
			found = slices.ContainsFunc(reserved,
				func(name string) bool { return http1.SameVariable(name, option) })
			return !found
		})
	}
	return found
}
