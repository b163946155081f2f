package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Explain writes which site, route and rules a request would meet, in this order, and what else
// applies to it. request is a URL, or a method and a URL.
func (c *Config) Explain(w io.Writer, request string) error {
	q, err := sample(request)
	if err != nil {
		return err
	}
	listener, note := c.listenerOf(q)
	if note != "" {
		fmt.Fprintln(w, note)
	}
	at, _, _ := c.Router.Lookup(listener, q.HTTPS, q.Verb, q.Host, q.Path, q.Raw)
	var site *Site // nil: that of -r, or of the built-in defaults
	if !c.servesRoot && at >= 0 && at < len(c.Sites) {
		site = &c.Sites[at]
		fmt.Fprintf(w, "site %d (%s): %s\n", at+1, site.Table.Position(""),
			cmp.Or(strings.Join(site.Hosts, ", "), "every other host"))
	} else {
		fmt.Fprintln(w, "the only site")
	}
	say := func(line string) { fmt.Fprintln(w, "  "+line) }
	if q.HTTPS {
		c.explainTLS(listener, q.Host, say)
	}
	c.values.Lookups(q, func(name, from, value string) {
		say(fmt.Sprintf("map {%s}: %q, for %q", name, value, from))
	})
	through := func(a *Around) rules.Outcome {
		a.explainBrowsers(say)
		outcome := rules.Passed
		if a.set != nil {
			outcome = a.set.Explain(q, say)
		}
		// A rewrite by a rule of the site leads to patterns, too; one by a rule of a route does not.
		if outcome == rules.Passed || outcome == rules.Changed && q.Route == "" {
			if !a.explain(q, say) {
				return rules.Ended
			}
		}
		return outcome
	}
	rewrites := 0
	if site != nil {
		if at := c.redirects(site, q); at != "" {
			say(at)
			return nil
		}
		switch through(&site.Around) {
		case rules.Ended:
			return nil
		case rules.Changed:
			rewrites++
		}
	}
	for {
		_, at, pattern := c.Router.Lookup(listener, q.HTTPS, q.Verb, q.Host, q.Path, q.Raw)
		switch {
		case pattern != "":
			fmt.Fprintf(w, "the program's own %q, for %s\n", pattern, q.Path)
			return nil
		case at < 0:
			fmt.Fprintf(w, "no route for %s: 404\n", q.Path)
			return nil
		case site == nil || at >= len(site.Routes):
			fmt.Fprintf(w, "a route of the program itself, for %s\n", q.Path)
			return nil
		}
		r := &site.Routes[at]
		if r.Internal && rewrites == 0 {
			fmt.Fprintf(w, "route %s (%s): internal, clients do not reach it: 404\n", r.Prefix,
				r.Rest.Position(""))
			return nil
		}
		fmt.Fprintf(w, "route %s (%s): %s, for %s\n", r.named(), r.Rest.Position(""),
			cmp.Or(r.Module, r.Handler), pathQuery(q))
		q.Route = strings.TrimSuffix(r.Prefix, "/")
		switch through(&r.Around) {
		case rules.Passed:
			u := r.upstream
			if r.chosen != nil {
				u = c.upstream(placeholder.Expand(r.chosen.text, q))
			}
			if u != nil {
				say(fmt.Sprintf("upstream (%s): %v", u.Table.Position(""), u))
			}
			if r.cache != nil {
				say(fmt.Sprintf("cache (%s): %s", r.cache.Table.Position(""), r.cache.Explain(q, r.depends)))
			}
			return nil
		case rules.Ended:
			return nil
		}
		if rewrites++; rewrites > 10 {
			fmt.Fprintln(w, "rewritten without end: 500")
			return nil
		}
	}
}

// named is the name of the route, see handlers.Route.Name.
func (r *Route) named() string {
	return (&handlers.Route{Prefix: r.Prefix, Exact: r.Exact, Regexp: r.re}).Name()
}

// explain describes what limit, auth and mirror do with a request. It reports whether the request
// may pass, as far as that is known.
func (a *Around) explain(q *rules.Sample, say func(string)) bool {
	if a.Limit != nil {
		at := fmt.Sprintf("limit (%s): ", a.Table.Position("limit"))
		if !a.Limit.AllowsMethod(q.Method()) {
			say(at + "answers 405, because it takes " + a.Limit.String())
			return false
		}
		say(at + a.Limit.String())
	}
	if a.Auth != nil {
		say(fmt.Sprintf("auth (%s): %v", a.Table.Position("auth"), a.Auth))
	}
	if a.SignedLinks != nil {
		say(fmt.Sprintf("signed_links (%s): %v", a.Table.Position("signed_links"), a.SignedLinks))
	}
	if a.Mirror != nil {
		say(fmt.Sprintf("mirror (%s): %v", a.Table.Position("mirror"), a.Mirror))
	}
	return true
}

// explainTLS says which certificate a client gets that asks for a host.
func (c *Config) explainTLS(listener, host string, say func(string)) {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		if l.Address.String() == listener && l.TLS.On() {
			say("tls: " + l.TLS.Explain(name))
		}
	}
}

// redirects returns where the key https of a site redirects a request, or "".
func (c *Config) redirects(site *Site, q *rules.Sample) string {
	if !site.HTTPS.Redirects(q.PathView(), q.HTTPS) {
		return ""
	}
	to := "the same address of https"
	if port, ok := c.httpsPort(*site); ok && port() != 443 {
		to += fmt.Sprintf(", port %d", port())
	}
	return fmt.Sprintf("https (%s): redirects to %s", site.Table.Position("https"), to)
}

// listenerOf returns the name, for the router, of the listener that a client reaches by the URL's
// scheme and port. If no listener has them, it returns one behind a proxy, which may have the port,
// or else "". note then says so.
func (c *Config) listenerOf(q *rules.Sample) (name, note string) {
	_, port, err := net.SplitHostPort(q.Host)
	if err != nil {
		if port = "80"; q.HTTPS {
			port = "443"
		}
	}
	for _, l := range c.Listeners {
		if _, own, err := net.SplitHostPort(l.Address.Name); err == nil && own == port &&
			l.Address.Network == "tcp" && (l.TLS.Config != nil) == q.HTTPS && l.Stream == nil {
			return l.Address.String(), ""
		}
	}
	scheme := "http"
	if q.HTTPS {
		scheme = "https"
	}
	note = fmt.Sprintf("no listener has %s at port %s; ", scheme, port)
	for _, l := range c.Listeners {
		if l.proxied() {
			return l.Address.String(), note + "as by a proxy in front of " + l.Address.String()
		}
	}
	return "", note + "as if there were one that no site names"
}

func pathQuery(q *rules.Sample) string {
	if q.Query == "" {
		return q.Path
	}
	return q.Path + "?" + q.Query
}

// sample makes a request of an argument of the command line.
func sample(request string) (*rules.Sample, error) {
	q := new(rules.Sample)
	method, url, ok := strings.Cut(request, " ")
	if !ok {
		method, url = "GET", request
	}
	if !http1.ValidToken(method) {
		return nil, fmt.Errorf("%q is not a method", method)
	}
	q.Verb = method
	rest, http := strings.CutPrefix(url, "http://")
	if !http {
		if rest, q.HTTPS = strings.CutPrefix(url, "https://"); !q.HTTPS {
			return nil, fmt.Errorf("expected a URL such as http://example.org/, not %q", url)
		}
	}
	end := strings.IndexAny(rest+"/", "/?#")
	q.Host, rest = rest[:end], rest[end:]
	if q.Host == "" {
		return nil, errors.New("there is no host in the URL")
	}
	rest, _, _ = strings.Cut(rest, "#") // which no client sends
	raw, query, _ := strings.Cut(rest, "?")
	path, err := http1.CleanPath(nil, []byte(raw))
	if err != nil {
		return nil, fmt.Errorf("the server would answer 400: %w", err)
	}
	q.Path, q.Raw, q.Query = string(path), raw, query
	return q, nil
}
