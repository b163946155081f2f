package conn_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
)

// TestReplaceHeaders: fields of several names take the place of all that the client has sent of
// these names, however a handler looks at them, and those without a field are gone.
func TestReplaceHeaders(t *testing.T) {
	names := []string{"A-One", "A-Two", "A-Three"}
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			if req.Method() == "PUT" {
				req.Header() // made before the change
			}
			path := req.Path()
			req.Layer().ReplaceHeaders(names,
				[]conn.Field{{Name: "A-Two", Value: "x"}, {Name: "A-Three", Value: ""},
					{Name: "A-Two", Value: "y"}})
			req.Layer().ReplaceHeaders(nil, []conn.Field{{Name: "A-Four", Value: "not asked for"}})
			for _, name := range append(names, "a_one", "A_Two", "A-Four", "Host") {
				var views []string
				for _, v := range req.Layer().AppendHeaderViews(nil, name) {
					views = append(views, string(v))
				}
				if values := req.Header().Values(name); fmt.Sprint(values) != fmt.Sprint(views) {
					t.Errorf("%s: %q, and as views %q", name, values, views)
				}
				fmt.Fprintf(w, "%q %t ", views, req.Layer().Replaced(name))
			}
			fmt.Fprint(w, path, req.Path(), req.Target())
			return 200
		}})
	const want = `[] true ["x" "y"] true [""] true [] true [] true ["4"] false ["test.example"] false /p/p/p?q`
	for _, method := range []string{"GET", "PUT"} {
		a := s.Request(method+" /p?q",
			[]string{"A-One: forged", "a_one: forged", "A_TWO: forged", "A-Four: 4"}, "")
		if a.Text != want {
			t.Errorf("%s\ngot  %s\nwant %s", method, a.Text, want)
		}
	}
}

// TestReplaceHeadersCost: however many fields there are, the head is copied once.
func TestReplaceHeadersCost(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector allocates")
	var names []string
	var fields []conn.Field
	for i := range 12 {
		names = append(names, fmt.Sprint("X-", i))
		fields = append(fields, conn.Field{Name: names[i], Value: "v"})
	}
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			asked := func(f func(l conn.RequestLayer)) float64 {
				return testing.AllocsPerRun(20, func() {
					_, _, err := req.Subrequest("/", func(sub *conn.Request, _ *conn.Response) int {
						f(sub.Layer())
						return 200
					})
					if err != nil {
						t.Error(err)
					}
				})
			}
			without := asked(func(conn.RequestLayer) {})
			fmt.Fprint(w, asked(func(l conn.RequestLayer) { l.ReplaceHeaders(names, fields) })-without)
			return 200
		}})
	if a := s.Request("GET /", nil, ""); a.Text != "2" { // the head, and the list of its fields
		t.Errorf("%s, %s allocations", a.Status, a.Text)
	}
}
