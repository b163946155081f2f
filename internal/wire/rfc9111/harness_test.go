package rfc9111_test

import (
	"iter"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// now is when answers come in these tests: Fri, 27 Nov 2026 12:00:00.5 GMT. Dates have no
// fractions.
var now = time.Date(2026, 11, 27, 12, 0, 0, 5e8, time.UTC)

const (
	date   = "Date: Fri, 27 Nov 2026 12:00:00 GMT"
	second = time.Second
)

// lines are the lines of a header section, "Name: value" each.
type lines []string

// text makes lines of a text, which have newlines between them.
func text(s string) lines {
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// HeaderViewFrom implements rfc9111.Fields.
func (l lines) HeaderViewFrom(name string, from int) (value []byte, next int) {
	for i := from; i < len(l); i++ {
		n, v, _ := strings.Cut(l[i], ":")
		if ascii.EqualFold(n, name) {
			return []byte(ascii.TrimOWS(v)), i + 1
		}
	}
	return nil, -1
}

// all yields the fields of an answer.
func (l lines) all() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, line := range l {
			n, v, _ := strings.Cut(line, ":")
			if !yield(n, ascii.TrimOWS(v)) {
				return
			}
		}
	}
}

func request(fields string) rfc9111.Request { return rfc9111.ReadRequest("GET", text(fields)) }

func response(status int, fields string) rfc9111.Response {
	return rfc9111.ReadResponse(status, text(fields).all())
}
