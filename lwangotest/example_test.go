package lwangotest_test

import (
	"net/http/httptest"
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

// A unit test of one answer. Handlers may wait and use the loop, as in a server.
func ExampleDo() {
	hello := func(req *lwango.Request, resp *lwango.Response) int {
		if err := req.Sleep(time.Millisecond); err != nil {
			return resp.Error(500, err)
		}
		return resp.Text(200, "Hello, "+req.Query().Get("name"))
	}
	testHello := func(t *testing.T) {
		a := lwangotest.Do(t, hello, httptest.NewRequest("GET", "/?name=Ann", nil))
		if a.StatusCode != 200 || a.Text != "Hello, Ann" {
			t.Errorf("%s: %q", a.Status, a.Text)
		}
	}
	exampleDo = testHello
}

// exampleDo is the test of ExampleDo.
var exampleDo func(t *testing.T)

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
