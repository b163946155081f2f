package lwangotest_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/lwangotest"
)

// greet makes the client wait.
func greet(req *lwango.Request, resp *lwango.Response) int {
	if req.Sleep(time.Hour) != nil {
		return 503
	}
	resp.WriteString("Hello, " + req.Query().Get("name"))
	return 200
}

// testGreet stands for TestGreet, in a program's file of tests.
var testGreet func(t *testing.T)

// A handler that waits for an hour, and its test, which does not.
func Example() {
	testGreet = func(t *testing.T) {
		s := lwangotest.Start(t, greet)
		c := s.Dial()
		c.Send("GET /?name=Ann HTTP/1.1\r\nHost: example.org\r\n\r\n")
		s.Advance(time.Hour)
		if a := c.Answer("GET"); a.StatusCode != 200 || a.Text != "Hello, Ann" {
			t.Errorf("%s: %q", a.Status, a.Text)
		}
	}
}
