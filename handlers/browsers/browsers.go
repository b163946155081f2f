// Package browsers is the keys `security_headers`, `cors` and `csrf` of a site and of a route: what
// pages, also those of other sites, may do with answers in a browser.
//
//	security_headers = "usual"
//	cors = { origins = ["https://app.example.org"] }
//	csrf = true
//
//	browsers.go  what is common
//	origins.go   sets of origins
//	cors.go      which pages may read answers, and preflights
//	csrf.go      requests that pages of other sites cause
//	security.go  fields that forbid browsers what pages seldom need
package browsers

import (
	"errors"

	"github.com/lwango/lwango/handlers"
)

// causeOf returns an error without the key that it has from another package.
func causeOf(err error) error {
	if e, ok := errors.AsType[*handlers.KeyError](err); ok {
		return e.Err
	}
	return err
}
