package reverseproxy

import (
	"fmt"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
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
		r.key, err = r.parseKey("hash", text)
		return err
	case "ip_hash":
		s.Balance = upstream.Hash
		r.key, _ = r.parseKey("hash", "{address}")
	}
	if text != "" {
		return handlers.BadKey("hash", `it has no effect without balance = "hash"`)
	}
	return nil
}

// key is what the requests of one client, or for one thing, have in common.
type key struct{ text placeholder.Text }

// parseKey reads a key of the configuration. The error is a *handlers.KeyError.
func (r *Route) parseKey(name, text string) (*key, error) {
	t, err := around.Of(r.Env).Maps.Parse(text)
	if err == nil && t.Literal() {
		err = fmt.Errorf("%q: expected a text with placeholders (known: %s)", text,
			template.List(placeholder.Names))
	}
	if err != nil {
		return nil, &handlers.KeyError{Key: name, Err: err}
	}
	return &key{t}, nil
}

// of returns the hash of a request's key; 0: all of the placeholders are empty, as that of a cookie
// is before the client has one.
func (k *key) of(req *conn.Request) uint64 {
	var space [256]byte
	b, some := placeholder.AppendKey(space[:0], req, k.text, networks.ClientNet)
	if !some {
		return 0
	}
	return upstream.AppendHash(0, b)
}
