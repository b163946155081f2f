package fastcgi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
)

// TestCases: whatever an application gets wrong, the client sees what it should.
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

// checkFields checks that a field "Name: value" is there, once, and a field "Name" is not.
func checkFields(t *testing.T, g got, fields []string) {
	t.Helper()
	for _, f := range fields {
		name, value, there := strings.Cut(f, ": ")
		if have := g.header.Values(name); there && !slices.Equal(have, []string{value}) || !there && have != nil {
			t.Errorf("%s is %.50q", name, have)
		}
	}
}

func testCase(t *testing.T, network string, tt fcgitest.Case, keep bool) {
	up := fcgitest.Start(t, network, tt.Script)
	defer up.Stop()
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.KeepConn = keep })
	line, body := "GET /x.php?q", strings.Repeat("0123456789abcdef", tt.Post/16)
	if body != "" {
		line = "POST /x.php?q"
	}
	o := p.request(line, nil, body)
	cut := o.err != nil
	switch {
	case tt.Cut && (o.status == 502 || o.status == 504 && tt.Slow):
		return
	case o.status != tt.Status || cut != tt.Cut:
		t.Fatalf("status %d, %v, want %d; log: %s", o.status, o.err, tt.Status, p.log)
	case cut || slices.Contains([]int{502, 503, 504}, o.status):
		if (o.status == 503) != (o.header.Get("Retry-After") != "") {
			t.Error("Retry-After: ", o.header)
		}
		return
	}
	if want := tt.Body; !tt.Echo && o.body != want || tt.Echo && o.body != body {
		t.Errorf("body of %d bytes, %.50q", len(o.body), o.body)
	}
	checkFields(t, o, tt.Fields)
	if !keep {
		return
	}
	if tt.Spoilt {
		if !up.Wait(fcgitest.Timeout, func(_, open, _ int) bool { return open == 0 }) && !strings.Contains(tt.Name,
			"behind") {
			t.Error("the connection is kept")
		}
	}
}
