package accesslog

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/lwango/lwango/internal/modules/placeholder"
)

// choice has, by the hundreds and by the status itself, those of requests that have a line.
type choice struct {
	classes [10]bool
	single  [1000]bool
}

// parseStatuses reads the key statuses.
func parseStatuses(all []string) (*choice, error) {
	c := new(choice)
	for _, text := range all {
		n, err := strconv.Atoi(text)
		switch {
		case len(text) == 3 && text[1:] == "xx" && '1' <= text[0] && text[0] <= '9':
			c.classes[text[0]-'0'] = true
		case err == nil && 100 <= n && n <= 999 && len(text) == 3:
			c.single[n] = true
		default:
			return nil, fmt.Errorf(`expected statuses such as "404" or "5xx", found %q`, text)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return c, nil
}

func (c *choice) has(status int) bool {
	return 0 <= status && status < len(c.single) && (c.single[status] || c.classes[status/100])
}

// parseCondition reads the key if.
func parseCondition(text string, texts *placeholder.Maps) (lineFormat, error) {
	return parseRaw(text, texts)
}

// onlyIf is form for requests that are chosen and whose condition is neither empty nor "0"; others
// get no line. Without a request, as at the end of a WebSocket, a condition that says something of
// one would always be empty, and so there is a line.
func onlyIf(form, condition lineFormat, chosen *choice) lineFormat {
	return func(b []byte, e *entry, c *clock) []byte {
		if chosen != nil && !chosen.has(e.Status) {
			return b
		}
		if _, ok := e.Layer(); ok && condition != nil {
			c.raw = true
			c.value = condition(c.value[:0], e, c)
			c.raw = false
			if value := c.value; len(value) == 0 || bytes.Equal(value, zero) {
				return b
			}
		}
		return form(b, e, c)
	}
}

var zero = []byte("0")
