package lwangotest_test

import (
	"fmt"
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

// A handler that waits for an hour, and its test, which does not. In a file of tests the testing.T
// comes from the go command.
func Example() {
	test := func(t *testing.T) {
		s := lwangotest.Start(t, greet)
		c := s.Dial()
		c.Send("GET /?name=Ann HTTP/1.1\r\nHost: example.org\r\n\r\n")
		s.Skip(time.Hour)
		if a := c.Answer("GET"); a.StatusCode != 200 || a.Text != "Hello, Ann" {
			t.Errorf("%s: %q", a.Status, a.Text)
		}
	}
	fmt.Println(testing.RunTests(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "TestGreet", F: test}}))
	// Output: true
}
