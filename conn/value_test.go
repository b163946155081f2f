package conn_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/conn"
)

// TestValue: values have a type and a key each, go with a request that is rewritten or forwarded,
// and are gone with it.
func TestValue(t *testing.T) {
	var name, other conn.Key[string]
	var cause conn.Key[error]
	show := func(req *conn.Request, resp *conn.Response) int {
		n, named := conn.Value(req, &name)
		o, also := conn.Value(req, &other)
		err, failed := conn.Value(req, &cause)
		fmt.Fprint(resp, n, named, o, also, err, failed, ";")
		return 200
	}
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		show(req, resp)
		conn.Set(req, &name, "first")
		conn.Set(req, &name, "ann")
		conn.Set(req, &cause, nil)
		show(req, resp)
		_ = req.Layer().Rewrite("/other")
		req.Layer().Instead("/page", resp, func(req *conn.Request, resp *conn.Response) int {
			conn.Set(req, &other, "page's")
			return show(req, resp)
		})
		return show(req, resp)
	}})
	c := s.Dial()
	const want = "falsefalse <nil> false;" +
		"anntruefalse <nil> true;" +
		"anntruepage'strue <nil> true;" +
		"anntruefalse <nil> true;"
	for range 2 {
		if got := c.Do("GET", get).Text; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
