package reverseproxy

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/template"
)

// balance reads the keys balance and hash.
func (r *Route) balance(s *upstream.Settings) (err error) {
	text := r.Hash
	switch r.Balance {
	case "least_conn":
		s.Balance = upstream.LeastConn
	case "random":
		s.Balance = upstream.Random
	case "hash":
		if s.Balance = upstream.Hash; text == "" {
			return handlers.BadKey("hash", `missing: what balance = "hash" goes by, such as "{uri}"`)
		}
		r.key, err = parseKey("hash", text, keyParts)
		return err
	case "ip_hash":
		s.Balance = upstream.Hash
		r.key, _ = parseKey("hash", "{address}", keyParts)
	}
	if text != "" {
		return handlers.BadKey("hash", `it has no effect without balance = "hash"`)
	}
	return nil
}

// key is what the requests of one client, or for one thing, have in common.
type key struct{ pieces template.Text }

// keyParts are the placeholders of a key.
var keyParts = []string{"address", "host", "path", "uri", "query", "query.*", "cookie.*",
	"field.*"}

// parseKey reads a key of the configuration, with these placeholders. The error is a
// *handlers.KeyError.
func parseKey(name, text string, parts []string) (*key, error) {
	pieces, err := template.Parse(text, parts)
	if variable := template.Variable(text); err == nil && variable != "" {
		err = fmt.Errorf("%q: unknown placeholder %s (known: %s)", text, variable,
			template.List(parts))
	}
	if err == nil && pieces.Literal() {
		err = fmt.Errorf("%q: expected a text with placeholders (known: %s)", text,
			template.List(parts))
	}
	if err != nil {
		return nil, &handlers.KeyError{Key: name, Err: err}
	}
	return &key{pieces}, nil
}

// of returns the hash of a request's key; 0: all of the placeholders are empty, as that of a cookie
// is before the client has one.
func (k *key) of(req *conn.Request) (h uint64) {
	some := false
	var clientNet [16]byte
	for _, p := range k.pieces {
		value, text := []byte(nil), p.Text
		switch p.Name {
		case "":
		case "address":
			if a := networks.ClientNet(req.RemoteAddr().Addr()); a.IsValid() {
				clientNet = a.As16()
				value = clientNet[:]
			}
		case "host":
			text = strings.ToLower(req.Host())
		case "path":
			value = req.Layer().PathView()
		case "uri":
			value = req.Layer().OriginalTargetView()
		case "query":
			text = req.RawQuery()
		default:
			if name, ok := strings.CutPrefix(p.Name, "cookie."); ok {
				value = cookie(req, name)
			} else if name, ok := strings.CutPrefix(p.Name, "query."); ok {
				value = parameter(req.Layer().QueryView(), name)
			} else {
				value, _ = req.Layer().HeaderView(p.Name[len("field."):])
			}
		}
		some = some || p.Name != "" && len(value)+len(text) > 0
		h = upstream.AppendHash(upstream.AppendHash(h, value), text)
	}
	if !some {
		return 0
	}
	return h
}

// parameter returns the value of the first parameter of that name of a query, as it was sent.
func parameter(query []byte, name string) []byte {
	for len(query) > 0 {
		var pair []byte
		pair, query, _ = bytes.Cut(query, []byte("&"))
		if n, value, _ := bytes.Cut(pair, []byte("=")); string(n) == name {
			return value
		}
	}
	return nil
}

// cookie returns a view of the value of the first cookie of that name.
func cookie(req *conn.Request, name string) []byte {
	for field, next := req.Layer().HeaderViewFrom("Cookie", 0); next >= 0; field, next =
		req.Layer().HeaderViewFrom("Cookie", next) {
		for len(field) > 0 {
			var pair []byte
			pair, field, _ = bytes.Cut(field, []byte(";"))
			if n, value, _ := bytes.Cut(bytes.TrimSpace(pair), []byte("=")); string(n) == name {
				return value
			}
		}
	}
	return nil
}
