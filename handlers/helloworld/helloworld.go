// Package helloworld is the compiled-in handler `hello_world`: the smallest answer a handler can
// give, and what the benchmark asks for.
//
//	[[site.route]]
//	prefix = "/hello"
//	handler = "hello_world"
package helloworld

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
)

// Register puts the handler into r.
func Register(r *handlers.Registry) { r.HandleFunc("hello_world", Serve) }

var greeting = []byte("Hello, world!")

// Serve answers every method with "Hello, world!", or "Hello, N!" if the query has name=N. It is a
// conn.Handler; it allocates nothing unless it greets somebody.
func Serve(req *conn.Request, resp *conn.Response) int {
	resp.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if mayHaveName(req.Layer().QueryView()) {
		if name := nameIn(req.RawQuery()); name != "" {
			resp.SetBody([]byte("Hello, " + name + "!"))
			return http.StatusOK
		}
	}
	resp.SetBody(greeting)
	return http.StatusOK
}

// mayHaveName reports whether nameIn may find a name in a query.
func mayHaveName(query []byte) bool {
	return len(query) > 0 &&
		(bytes.IndexByte(query, '%') >= 0 || bytes.Contains(query, []byte("name=")))
}

// nameIn returns the first name of a raw query. What is no UTF-8 is replaced: the answer says that
// it is.
func nameIn(query string) string {
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if key, err := url.QueryUnescape(key); err != nil || key != "name" {
			continue
		}
		name, err := url.QueryUnescape(value)
		if err != nil {
			continue
		}
		return strings.ToValidUTF8(name, "\uFFFD")
	}
	return ""
}
