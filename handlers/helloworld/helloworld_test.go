package helloworld_test

import (
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/helloworld"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
)

func TestHelloWorld(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := module.Start(t, m, "/hello", helloworld.Serve)
		for _, c := range []struct{ line, want, why string }{
			{"GET /hello", "Hello, world!", ""},
			{"GET /hello/below", "Hello, world!", ""},
			{"POST /hello", "Hello, world!", "any method"},
			{"GET /hello?", "Hello, world!", "an empty query"},
			{"GET /hello?name=", "Hello, world!", "nobody to greet"},
			{"GET /hello?name=Anna", "Hello, Anna!", ""},
			{"GET /hello?x=1&name=Anna&name=Bert", "Hello, Anna!", "the first counts"},
			{"GET /hello?name=A+%26%20B", "Hello, A & B!", "decoded"},
			{"GET /hello?n%61me=Anna", "Hello, Anna!", "keys too"},
			{"GET /hello?name=%zz&name=Bert", "Hello, Bert!", "a malformed one is left out"},
			{"GET /hello?name=%ff", "Hello, \uFFFD!", "not UTF-8"},
			{"GET /hello?name=Zo%C3%AB", "Hello, Zoë!", ""},
			{"GET /hello?name=%3Cb%3E%0d%0aX:%20y", "Hello, <b>\r\nX: y!",
				"text is not interpreted, and far from the header"},
			{"GET /hello?username=Anna", "Hello, world!", "another key"},
		} {
			got := s.Request(c.line, nil, "")
			if got.StatusCode != 200 || got.Text != c.want ||
				got.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%s: got %d %q %v, want %q (%s)", c.line, got.StatusCode, got.Text,
					got.Header, c.want, c.why)
			}
		}
		if head := s.Request("HEAD /hello", nil, ""); head.StatusCode != 200 ||
			head.ContentLength != 13 || head.Text != "" {
			t.Errorf("HEAD: %+v", head)
		}
	}, modes.Plain, modes.Direct)
}

func TestAllocations(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := module.Start(t, m, "/", helloworld.Serve)
		for _, target := range []string{"/hello", "/hello?page=1"} {
			if n := s.Allocs("GET " + target +
				" HTTP/1.1\r\nHost: test.example\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n"); n != 0 {
				t.Errorf("%s: %v allocations", target, n)
			}
		}
	}, modes.Plain, modes.Direct)
}

func TestRegister(t *testing.T) {
	var r handlers.Registry
	helloworld.Register(&r)
	if _, ok := r.Handler("hello_world"); !ok {
		t.Error("not registered")
	}
}
