package reverseproxy

import (
	"errors"
	"net/http"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/http1"
)

// nameParts are the placeholders of a name for TLS.
var nameParts = []string{"host", "field.*"}

// errNoName is the error of a request that has no name for TLS with the upstream.
var errNoName error = noName{errors.New("the request has no name for TLS with the upstream")}

type noName struct{ error }

// ClientStatus implements refusal: what the client has sent is at fault.
func (noName) ClientStatus() int { return http.StatusBadRequest }

// Security loads the key tls, whose name may have placeholders. The error is a *handlers.KeyError.
func (r *Route) Security(t *upstreams.TLS) (s *upstream.Security, err error) {
	if strings.Contains(t.Name, "{") {
		if r.name, err = parseKey("tls", t.Name, nameParts); err != nil {
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
	for _, p := range r.name.pieces {
		switch field, ok := strings.CutPrefix(p.Name, "field."); {
		case p.Name == "host":
			name, _ := http1.SplitPort(req.Host())
			b = append(b, name...)
		case ok:
			value, _ := req.Layer().HeaderView(field)
			b = append(b, value...)
		default:
			b = append(b, p.Text...)
		}
	}
	return b
}
