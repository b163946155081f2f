package conn_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
)

// TestAnyMethod: what a method means is the handler's to say, on the loop and behind the bridges;
// the log has it, too.
func TestAnyMethod(t *testing.T) {
	native := func(req *conn.Request, resp *conn.Response) int {
		before := req.Method()
		fmt.Fprintf(resp, "%s %s", req.Method(), req.Path())
		_, _ = io.Copy(resp, req.Body())
		req.Layer().Instead("/another", resp, func(req *conn.Request, _ *conn.Response) int {
			if req.Method() != "GET" {
				t.Errorf("%s instead", req.Method())
			}
			return 200
		})
		if req.Method() != before {
			t.Errorf("%s afterwards", req.Method())
		}
		return 200
	}
	std := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
		_, _ = io.Copy(w, r.Body)
	})
	log := &entries{}
	s := start(t, plain, conn.Config{AccessLog: log, Handler: byPath(map[string]conn.Handler{
		"/native": native, "/loop": conn.HTTPOnLoop(std), "/off": conn.HTTP(std)})})
	c := s.Dial()
	for _, method := range []string{"PURGE", "BAN", "NOTIFY", "SUBSCRIBE", "M-SEARCH", "get", "!",
		strings.Repeat("A", 64)} {
		for _, path := range []string{"/native", "/loop", "/off"} {
			a := c.Do("POST", method+" "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
			if a.StatusCode != 200 || a.Text != method+" "+path+"body" {
				t.Errorf("%s: %d %s", method, a.StatusCode, a.Text)
			}
			if e := log.one(t); e.Method != method {
				t.Errorf("%s: the log has %q", method, e.Method)
			}
		}
	}
}
