package cache

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/base/ascii"
)

// Explain says in words what a layer with these settings would do with a request: by which key, or
// why not. also are the Words of a Dependence.
func (s Settings) Explain(q *rules.Sample, also []string) string {
	if m := q.Method(); m != http.MethodGet && m != http.MethodHead {
		return m + " goes past it, and drops what is kept for the URL if it changes anything"
	}
	if why, ok := firstOf("bypass", s.Bypass, q); ok {
		return "goes past it: " + why
	}
	var key string
	switch {
	case s.Key != "":
		key = "the key is made of " + s.Key
	default:
		scheme := "http"
		if q.HTTPS {
			scheme = "https"
		}
		target := cmp.Or(q.Raw, q.Path)
		if q.Query != "" {
			target += "?" + q.Query
		}
		url := []byte(scheme + "://" + ascii.ToLower(q.Host) + target)
		if s.SortQuery {
			url = sortQuery(url, 0)
		}
		key = "the key is " + string(url)
	}
	if len(also) > 0 {
		key += ", and beside it there is " + strings.Join(also, ", ")
	}
	if why, ok := firstOf("renew", s.Renew, q); ok {
		key += "; the application is asked: " + why
	}
	if why, ok := firstOf("no_store", s.NoStore, q); ok {
		return key + "; the answer is not kept: " + why
	}
	return key
}

// firstOf returns the first of a key's tables whose conditions hold.
func firstOf(key string, all []rules.When, q *rules.Sample) (why string, ok bool) {
	for i, w := range all {
		if m, err := w.Compile(); err == nil && m.Holds(q) {
			return fmt.Sprintf("%s %d %s", key, i+1, m.Why(q)), true
		}
	}
	return "", false
}
