package https

import (
	"errors"
	"strconv"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
)

// HSTS are the directives of Strict-Transport-Security (RFC 6797 section 6.1).
type HSTS struct {
	// MaxAge is for how long; it is required.
	MaxAge *time.Duration `toml:"max_age" min:"0s" max:"876000h"`
	// IncludeSubdomains is whether that is for all names below the host, too.
	IncludeSubdomains bool `toml:"include_subdomains"`
	// Preload asks for a place in the list that browsers come with.
	Preload bool `toml:"preload"`
}

// preloadAge is the least max_age that the browsers' list of hosts takes, hstspreload.org.
const preloadAge = 8760 * time.Hour

// field returns the value of the field.
func (h *HSTS) field() (string, error) {
	switch {
	case h.MaxAge == nil:
		return "", errors.New(`expected a max_age, as in { max_age = "8760h" }, which is a year`)
	case h.Preload && (!h.IncludeSubdomains || *h.MaxAge < preloadAge):
		return "", errors.New(`with preload, expected include_subdomains = true and ` +
			`a max_age of "8760h" or more: the browsers' list takes no other hosts`)
	}
	value := "max-age=" + strconv.FormatInt(int64(*h.MaxAge/time.Second), 10)
	if h.IncludeSubdomains {
		value += "; includeSubDomains"
	}
	if h.Preload {
		value += "; preload"
	}
	return value, nil
}

const fieldName = "Strict-Transport-Security"

// hstsMiddleware adds the field to secure answers, also to errors, unless the handler has set it.
// Over http it must not be sent (RFC 6797 section 7.2).
func hstsMiddleware(value string) handlers.Middleware {
	hook := func(_ *conn.Request, resp *conn.Response, _ int) {
		if h := resp.Header(); !h.Has(fieldName) {
			h.Set(fieldName, value)
		}
	}
	return func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			if req.Secure() {
				resp.Layer().BeforeHead(hook)
			}
			return next(req, resp)
		}
	}
}
