package fcgitest_test

import (
	"strconv"
	"testing"

	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
)

// TestCases: the packages wire and cgi make of every case what they should.
func TestCases(t *testing.T) {
	fcgitest.Run(t, func(t *testing.T, up *fcgitest.Upstream, tt fcgitest.Case, body string,
		keep bool) fcgitest.Answer {
		c := dial(t, up.Address, keep)
		if tt.Timeout > 0 {
			c.wait = tt.Timeout
		}
		o := c.do(body)
		// Bytes behind the end may come when the response is complete already. A pool that keeps
		// the connection has to look for them.
		if o.reuse && tt.Spoilt && tt.Name != "bytes behind the end" {
			t.Error("the connection would be used again")
		}
		a := fcgitest.Answer{Status: o.status, Header: make(map[string][]string), Body: o.body}
		for _, f := range o.fields {
			a.Header.Add(f.Name, f.Value)
		}
		if o.length >= 0 {
			a.Header.Set("Content-Length", strconv.FormatInt(o.length, 10))
		}
		if o.cut {
			a.Err = o.err
		}
		return a
	})
}

func TestCasesAreTold(t *testing.T) {
	seen := make(map[string]bool)
	for _, tt := range fcgitest.Cases {
		if seen[tt.Name] || tt.Name == "" || tt.Status == 0 {
			t.Errorf("%q: name or status", tt.Name)
		}
		seen[tt.Name] = true
	}
}
