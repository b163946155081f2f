package fcgitest_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
)

// late are the cases that spoil a connection by what comes when the response is complete already: whoever takes the
// connection from a list has to look for it.
var late = map[string]bool{"bytes behind the end": true}

// That the packages wire and cgi make of every case what has to become of it.
func TestCases(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		for _, tt := range fcgitest.Cases {
			if tt.Slow && network != "unix" {
				continue // time passes alike on both
			}
			t.Run(network+"/"+tt.Name, func(t *testing.T) {
				t.Parallel()
				testCase(t, network, tt, false)
				if !tt.Slow {
					testCase(t, network, tt, true)
				}
			})
		}
	}
}

func testCase(t *testing.T, network string, tt fcgitest.Case, keep bool) {
	up := fcgitest.Start(t, network, tt.Script)
	defer up.Stop()
	body := strings.Repeat("0123456789abcdef", tt.Post/16)
	c := dial(t, up.Address, keep)
	if tt.Slow {
		c.wait = fcgitest.Timeout
	}
	o := c.do(body)
	if o.status != tt.Status && !(tt.Cut && (o.status == 502 || o.status == 504 && tt.Slow)) {
		t.Fatalf("status %d, %v, want %d", o.status, o.err, tt.Status)
	}
	if tt.Cut != o.cut && o.status == tt.Status {
		t.Errorf("cut: %v, %v", o.cut, o.err)
	}
	if o.reuse && tt.Spoilt && !late[tt.Name] {
		t.Error("the connection would be used again")
	}
	if o.err != nil {
		return
	}
	if want := tt.Body; !tt.Echo && o.body != want || tt.Echo && o.body != body {
		t.Errorf("body of %d bytes, %.50q", len(o.body), o.body)
	}
	for _, f := range tt.Fields {
		name, value, there := strings.Cut(f, ": ")
		n := 0
		for _, have := range o.fields {
			if strings.EqualFold(have.Name, name) {
				if n++; have.Value != value {
					t.Errorf("%s is %.50q", name, have.Value)
				}
			}
		}
		if strings.EqualFold(name, "content-length") {
			continue // it is not among the fields
		}
		if there != (n == 1) || n > 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
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
