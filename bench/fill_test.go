package main

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/bench/tasks"
)

func fillTestJob(addr string) job {
	return job{Addr: addr, Group: ownGroup, Patience: verifyLimit,
		load: load{Path: tasks.FillPath, Conns: 70}}
}

func TestFill(t *testing.T) {
	for _, name := range []string{"gorilla", "nbio"} {
		t.Run(name, func(t *testing.T) {
			f, err := attempt(loadFill, fillTestJob(socketServer(t, name)))
			if err != nil {
				t.Fatal(err)
			}
			if f["filled"] <= 0 || f["cpu"] <= 0 {
				t.Errorf("%+v", f)
			}
		})
	}
}

// Each hears of each once, and of nobody else.
func TestFillNoticesWhatIsWrong(t *testing.T) {
	for _, row := range []struct{ first, second, err string }{
		{"=0,1", "+2", ""},
		{"=", "+0,1,2", ""},
		{"=0,1", "+1", "member 1 twice"},
		{"=0,70", "", "who never came"},
		{"=0,x", "", "who never came"},
		{"0,1", "", "other bytes"},
	} {
		c := newFillClient(fillTestJob(""))
		err := c.take(5, []byte(row.first), 0)
		if err == nil && row.second != "" {
			err = c.take(5, []byte(row.second), 0)
		}
		c.shut()
		if row.err == "" && (err != nil || c.unknown != 70*70-3) ||
			row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
			t.Errorf("%q, %q: %v, %d pairs unknown", row.first, row.second, err, c.unknown)
		}
	}
}
