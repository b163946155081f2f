package handlers

import (
	"errors"
	"slices"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// serverFields are the fields that frame a message or speak about the connection, and the date. The
// server sets them as each response needs them; a second value would contradict what is really
// sent.
var serverFields = []string{
	"connection", "content-length", "date", "keep-alive", "trailer", "transfer-encoding", "upgrade",
}

// CheckField reports why a response cannot have a header field with this name and these values by
// configuration: at the start, where it would otherwise be a 500 for each request. The message does
// not repeat the name.
func CheckField(name string, values ...string) error {
	switch {
	case !http1.ValidToken(name):
		return errors.New("not a valid name of a header field")
	case slices.ContainsFunc(serverFields, func(f string) bool { return ascii.EqualFold(f, name) }):
		return errors.New("is set by the server itself")
	case slices.ContainsFunc(values, func(v string) bool { return !http1.ValidFieldValue(v) }):
		return errors.New("control characters cannot be part of a header field")
	}
	return nil
}
