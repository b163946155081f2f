package proxy

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/relay"
)

// causes are the names of relay's, in their order.
var causes = []string{"connect", "cut", "timeout", "502", "503", "504"}

// causesOf reads the key `retry`.
func causesOf(names []string) (set relay.Causes, err error) {
	for _, name := range names {
		i := slices.Index(causes, name)
		if i < 0 {
			return 0, handlers.BadKey("retry", "expected some of %s, not %q",
				strings.Join(causes, ", "), name)
		}
		set |= 1 << i
	}
	return set, nil
}

// retries reports whether an answer with that status has a request sent to another upstream.
func (m *module) retries(status int) bool {
	switch status {
	case http.StatusBadGateway:
		return m.Retry&relay.On502 != 0
	case http.StatusServiceUnavailable:
		return m.Retry&relay.On503 != 0
	case http.StatusGatewayTimeout:
		return m.Retry&relay.On504 != 0
	}
	return false
}
