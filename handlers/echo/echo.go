// Package echo is the compiled-in handler `echo`: it sends back the body of a request, or shows
// what the server has understood of one without a body.
//
//	[[site.route]]
//	prefix = "/echo"
//	handler = "echo"
package echo

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
)

// Register puts the handler into r.
func Register(r *handlers.Registry) { r.HandleFunc("echo", Serve) }

// firstPiece is how much of a body is held while the rest of it, if any, is still with the client.
const firstPiece = 4 << 10

// Serve answers GET and HEAD with the request as text, OPTIONS with the allowed methods, and every
// other method with the request's body. It is a conn.Handler.
func Serve(req *conn.Request, resp *conn.Response) int {
	switch req.Method() {
	case http.MethodGet, http.MethodHead:
		resp.Header().Set("Content-Type", "text/plain; charset=utf-8")
		resp.SetBody([]byte(describe(req)))
		return http.StatusOK
	case http.MethodOptions:
		resp.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		return http.StatusNoContent
	}

	// The handler reads the beginning before the answer begins. So a client that waits for 100
	// (Continue) sends its body, and a body that is bad from the start gets the right status, which
	// conn knows from the failed read.
	first := make([]byte, firstPiece)
	n, err := req.Body().Read(first)
	if err != nil && err != io.EOF {
		return http.StatusBadRequest
	}
	contentType := cmp.Or(req.Header().Get("Content-Type"), "application/octet-stream")
	resp.Header().Set("Content-Type", contentType)
	if length := req.ContentLength(); err == io.EOF || length == int64(n) {
		resp.SetBody(first[:n])
	} else {
		resp.SetBodyReader(io.MultiReader(bytes.NewReader(first[:n]), req.Body()), length)
	}
	return http.StatusOK
}

// describe lists what a handler sees of a request. The names in front are those of the Request's
// methods.
func describe(req *conn.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s\n\n", req.Method(), req.Target(), req.Proto())
	for _, line := range []struct{ name, value string }{
		{"Host", req.Host()},
		{"Path", req.Path()},
		{"Prefix", req.Prefix()},
		{"SubPath", req.SubPath()},
		{"RawQuery", req.RawQuery()},
		{"RemoteAddr", address(req.RemoteAddr())},
		{"LocalAddr", address(req.LocalAddr())},
	} {
		fmt.Fprintf(&b, "%-10s %s\n", line.name, line.value)
	}
	b.WriteByte('\n')
	for name, value := range req.Header().All() {
		fmt.Fprintf(&b, "%s: %s\n", name, value)
	}
	return b.String()
}

// address is empty for a UNIX socket, which has none.
func address(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
