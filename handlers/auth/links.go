package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Links are the keys of `signed_links`: only requests by links pass that an application has signed
// with a secret, until they expire.
type Links struct {
	// SecretFile are files with the secret; signatures with any of them count.
	SecretFile []string `toml:"secret_file"`
	// Over is what is signed, behind the time at which the link expires and a space.
	Over string `toml:"over" default:"{prefix}{path}"`
	// Signature is the parameter of the query that has the signature.
	Signature string `toml:"signature" default:"s"`
	// Expires is the parameter of the query that has the time, in seconds since 1970.
	Expires string `toml:"expires" default:"e"`
}

// String says in words who may pass.
func (l Links) String() string {
	l = tags.Or(l, tags.Defaults[Links]())
	return fmt.Sprintf("links signed over %s, by the parameters %s and %s", l.Over, l.Signature,
		l.Expires)
}

const (
	leastSecret = 16 // bytes; a shorter one can be guessed
	maxSecret   = 4 << 10
)

// links is a Links made ready.
type links struct {
	secrets                  [][]byte
	over, signature, expires placeholder.Text
}

// NewLinks makes the middleware. It reads the secrets. Errors are *handlers.KeyError. The handlers
// may run on any number of loops at once.
func NewLinks(s Links, env handlers.Env) (handlers.Middleware, error) {
	s = tags.Or(s, tags.Defaults[Links]())
	l := new(links)
	if len(s.SecretFile) == 0 {
		return nil, handlers.BadKey("secret_file", "missing; expected the path of a file")
	}
	for _, path := range s.SecretFile {
		secret, err := readSecret(env.Path(path))
		if err != nil {
			return nil, &handlers.KeyError{Key: "secret_file", Err: err}
		}
		l.secrets = append(l.secrets, secret)
	}
	maps := around.Of(env).Maps
	var err error
	if l.over, err = maps.Parse(s.Over); err != nil {
		return nil, placeholder.BadKey("over", err)
	}
	if l.over.Literal() {
		return nil, handlers.BadKey("over", "%q: expected a text with placeholders: one signature "+
			"would be for all requests", s.Over)
	}
	if s.Signature == s.Expires {
		return nil, handlers.BadKey("expires", "is the parameter of the signature")
	}
	for _, p := range []struct {
		key, name string
		to        *placeholder.Text
	}{{"signature", s.Signature, &l.signature}, {"expires", s.Expires, &l.expires}} {
		if !http1.ValidToken(p.name) {
			return nil, handlers.BadKey(p.key, "%q: expected the name of a parameter, such as \"s\"", p.name)
		}
		if *p.to, err = maps.Parse("{query." + p.name + "}"); err != nil {
			return nil, placeholder.BadKey(p.key, err)
		}
	}
	return func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			if status := l.check(req, time.Now()); status != 0 {
				return status
			}
			return next(req, resp)
		}
	}, nil
}

// readSecret reads a secret, which ends at the end of the file or of its only line.
func readSecret(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would wait for its writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, err
	}
	text = bytes.TrimRight(text, "\r\n")
	if len(text) < leastSecret || len(text) > maxSecret {
		return nil, fmt.Errorf("%s: expected a secret of %d bytes to %d, which openssl rand -hex 32 "+
			"makes", path, leastSecret, maxSecret)
	}
	return text, nil
}

// check returns the status for a request without a link that counts now, or 0.
func (l *links) check(req *conn.Request, now time.Time) int {
	if l.over.Repeats(req.Layer().QueryView()) {
		return http.StatusForbidden
	}
	var space [512]byte
	expires := placeholder.Append(space[:0], req, l.expires)
	until, err := strconv.ParseUint(string(expires), 10, 40)
	if err != nil {
		return http.StatusForbidden
	}
	signed := append(expires, ' ')
	signed = placeholder.Append(signed, req, l.over)
	sent := placeholder.Append(nil, req, l.signature)
	sum, err := base64.RawURLEncoding.Strict().AppendDecode(nil, bytes.TrimRight(sent, "="))
	if err != nil || len(sum) != sha256.Size {
		return http.StatusForbidden
	}
	for _, secret := range l.secrets {
		h := hmac.New(sha256.New, secret)
		h.Write(signed)
		switch {
		case !hmac.Equal(sum, h.Sum(nil)):
		case until <= uint64(now.Unix()):
			return http.StatusGone
		default:
			return 0
		}
	}
	return http.StatusForbidden
}
