package proxy

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
)

// causes are the names of reverseproxy's, in their order.
var causes = []string{"connect", "cut", "timeout"}

// statuses are those of answers for which a request may go to another upstream.
var statuses = []string{"403", "404", "429", "500", "502", "503", "504"}

// causesOf reads the key `retry`.
func causesOf(names []string) (set reverseproxy.RetryCauses, answers []int, err error) {
	for _, name := range names {
		if i := slices.Index(causes, name); i >= 0 {
			set |= 1 << i
			continue
		}
		if !slices.Contains(statuses, name) {
			return 0, nil, handlers.BadKey("retry", "expected some of %s, not %q",
				strings.Join(slices.Concat(causes, statuses), ", "), name)
		}
		status, _ := strconv.Atoi(name)
		answers = append(answers, status)
	}
	return set, answers, nil
}

// retries reports whether an answer with that status has a request sent to another upstream.
func (m *module) retries(status int) bool {
	return status >= http.StatusForbidden && slices.Contains(m.answers, status)
}

// fails reports whether an answer with that status, for which another upstream is asked, is a
// failure: one that does not have a page, or does not let a client have it, is in order.
func fails(status int) bool {
	return status != http.StatusForbidden && status != http.StatusNotFound
}
