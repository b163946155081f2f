package metrics_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/base/metrics"
)

// TestUpstreamStates: an alert finds out whether requests go to an address, and what an operator
// has said of it and perhaps forgotten.
func TestUpstreamStates(t *testing.T) {
	for _, row := range []struct {
		up           bool
		state, shown string
	}{
		{true, "", "up"}, {false, "", "failed"}, {true, "drain", "drained"}, {false, "drain", "drained"},
		{true, "down", "disabled"}, {false, "down", "disabled"},
	} {
		s := metrics.Snapshot{Upstreams: []metrics.Upstream{{Site: "*", Route: "/", Address: "a:1",
			Up:    row.up,
			State: row.state}}}
		if got := s.Upstreams[0].Shown(); got != row.shown {
			t.Errorf("%+v is shown as %q", row, got)
		}
		text := string(s.AppendText(nil, nil))
		const labels = `{site="*",route="/",address="a:1"`
		want := []string{"lwango_upstream_up" + labels + "} 0\n"}
		if row.shown == "up" {
			want[0] = "lwango_upstream_up" + labels + "} 1\n"
		}
		for _, state := range []string{"up", "failed", "drained", "disabled"} {
			n := " 0\n"
			if state == row.shown {
				n = " 1\n"
			}
			want = append(want, "lwango_upstream_state"+labels+`,state="`+state+`"}`+n)
		}
		for _, line := range want {
			if !strings.Contains(text, line) {
				t.Errorf("%+v: no %s in\n%s", row, line, text)
			}
		}
	}
}
