package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/http1"
)

// explain writes which site, route and rules a request would meet. request is a URL, or a method
// and a URL.
func (c *config) explain(w io.Writer, request string) error {
	q, err := sample(request)
	if err != nil {
		return err
	}
	listener := c.listenerOf(q)
	at, _ := c.Router.Place(listener, q.HTTPS, q.Host, q.Path)
	var site *siteConfig // nil: that of -r, or of the built-in defaults
	if !c.rooted && at >= 0 && at < len(c.Sites) {
		site = &c.Sites[at]
		fmt.Fprintf(w, "site %d (line %d): %s\n", at+1, site.Table.Line(""),
			orElse(strings.Join(site.Hosts, ", "), "every other host"))
	} else {
		fmt.Fprintln(w, "the only site")
	}
	say := func(line string) { fmt.Fprintln(w, "  "+line) }
	through := func(set *rules.Set) rules.Outcome {
		if set == nil {
			return rules.Passed
		}
		return set.Explain(q, say)
	}
	rewrites := 0
	if site != nil {
		switch through(site.Around.set) {
		case rules.Ended:
			return nil
		case rules.Changed:
			rewrites++
		}
	}
	for {
		_, at := c.Router.Place(listener, q.HTTPS, q.Host, q.Path)
		switch {
		case at < 0:
			fmt.Fprintf(w, "no route for %s: 404\n", q.Path)
			return nil
		case site == nil || at >= len(site.Routes):
			fmt.Fprintf(w, "a route of the program itself, for %s\n", q.Path)
			return nil
		}
		r := &site.Routes[at]
		fmt.Fprintf(w, "route %s (line %d): %s, for %s\n", r.Prefix, r.Rest.Line(""),
			orElse(r.Module, r.Handler), pathQuery(q))
		q.Route = strings.TrimSuffix(r.Prefix, "/")
		if through(r.Around.set) != rules.Changed {
			return nil
		}
		if rewrites++; rewrites > 10 {
			fmt.Fprintln(w, "rewritten without end: 500")
			return nil
		}
	}
}

// listenerOf returns the name, for the router, of the listener that a client reaches by the URL's
// scheme and port; "" if there is none, as where another server in front has the port.
func (c *config) listenerOf(q *rules.Sample) string {
	_, port, err := net.SplitHostPort(q.Host)
	if err != nil {
		if port = "80"; q.HTTPS {
			port = "443"
		}
	}
	for _, l := range c.Listeners {
		if _, own, err := net.SplitHostPort(l.Address.Name); err == nil && own == port &&
			l.Address.Network == "tcp" && (l.TLS != nil) == q.HTTPS {
			return l.Address.String()
		}
	}
	return ""
}

func pathQuery(q *rules.Sample) string {
	if q.Query == "" {
		return q.Path
	}
	return q.Path + "?" + q.Query
}

// sample makes a request of what the command line says.
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
	q.Path, q.Query = string(path), query
	return q, nil
}
