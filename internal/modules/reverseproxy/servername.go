package reverseproxy

import (
	"errors"
	"net/http"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/upstream"
)

// errNoName is the error of a request that has no name for TLS with the upstream.
var errNoName error = noName{errors.New("the request has no name for TLS with the upstream")}

type noName struct{ error }

// ClientStatus implements refusal: what the client has sent is at fault.
func (noName) ClientStatus() int { return http.StatusBadRequest }

// Security loads the key tls, whose name may have placeholders. The error is a *handlers.KeyError.
func (r *Route) Security(t *upstreams.TLS) (s *upstream.Security, err error) {
	if strings.Contains(t.Name, "{") {
		if r.name, err = r.parseKey("tls", t.Name); err != nil {
			return nil, err
		}
	}
	if s, err = (*upstream.TLS)(t).Load(r.Env.Path, r.name != nil); err != nil {
		return nil, handlers.BadKey("tls", "%w", err)
	}
	return s, nil
}

// serverName returns the name for TLS that a request asks for, or errNoName.
func (r *Route) serverName(req *conn.Request) (string, error) {
	b := r.appendName(nil, req)
	name := strings.ToLower(strings.TrimSuffix(strings.Trim(string(b), "[]"), "."))
	if !upstream.ValidName(name) {
		return "", errNoName
	}
	return name, nil
}

// appendName appends the name as the request has it.
func (r *Route) appendName(b []byte, req *conn.Request) []byte {
	return placeholder.Append(b, req, r.name.text)
}
