package fcgitest

import (
	"net/textproto"
	"slices"
	"strings"
	"testing"
)

// An Answer is what a client has seen of a Case.
type Answer struct {
	Status int
	Header textproto.MIMEHeader
	Body   string
	Err    error // the answer has begun, and was cut
}

// Run runs the cases over UNIX sockets and TCP, with connections that are kept and that are not.
// ask sends a request with that body, and returns the answer.
func Run(t *testing.T, ask func(t *testing.T, up *Upstream, tt Case, body string,
	keep bool) Answer) {
	for _, network := range []string{"unix", "tcp"} {
		for _, tt := range Cases {
			if tt.Timeout > 0 && network != "unix" {
				continue // time passes alike on both
			}
			t.Run(network+"/"+tt.Name, func(t *testing.T) {
				t.Parallel()
				for _, keep := range []bool{false, true} {
					if tt.Timeout > 0 && keep {
						continue
					}
					up := Start(t, network, tt.Script)
					body := strings.Repeat("0123456789abcdef", tt.Post/16)
					tt.judge(t, ask(t, up, tt, body, keep), body)
					up.Stop()
				}
			})
		}
	}
}

// judge fails the test if a is not what the client has to see. body is the request's.
func (tt *Case) judge(t *testing.T, a Answer, body string) {
	t.Helper()
	if tt.Cut && a.Err == nil && (a.Status == 502 || a.Status == 504 && tt.Timeout > 0) {
		return
	}
	if a.Status != tt.Status || (a.Err != nil) != tt.Cut {
		t.Fatalf("status %d, %v, want %d", a.Status, a.Err, tt.Status)
	}
	if a.Err != nil || slices.Contains([]int{502, 503, 504}, a.Status) {
		return
	}
	want := tt.Body
	if tt.Echo {
		want = body
	}
	if a.Body != want {
		t.Errorf("body of %d bytes, %.50q", len(a.Body), a.Body)
	}
	CheckFields(t, a.Header, tt.Fields)
}

// CheckFields fails the test unless h has each field "Name: value" once, and no field "Name".
func CheckFields(t *testing.T, h textproto.MIMEHeader, fields []string) {
	t.Helper()
	for _, f := range fields {
		name, value, there := strings.Cut(f, ": ")
		have := h.Values(name)
		if there && !slices.Equal(have, []string{value}) || !there && have != nil {
			t.Errorf("%s is %.50q", name, have)
		}
	}
}
