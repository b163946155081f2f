package helloworld_test

import (
	"testing"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/helloworld"
	"github.com/lwango/lwango/handlers/modtest"
)

func TestHelloWorld(t *testing.T) {
	modtest.Run(t, func(t *testing.T, handoff coro.Handoff) {
		s := modtest.Start(t, "/hello", helloworld.Serve, handoff)
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
			{"GET /hello?name=%3Cb%3E%0d%0aX:%20y", "Hello, <b>\r\nX: y!", "text is not interpreted, and far from the header"},
			{"GET /hello?username=Anna", "Hello, world!", "another key"},
		} {
			got := s.Do(c.line, nil, "")
			if got.Status != 200 || got.Body != c.want || got.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
				t.Errorf("%s: got %d %q %v, want %q (%s)", c.line, got.Status, got.Body, got.Header, c.want, c.why)
			}
		}
		if head := s.Do("HEAD /hello", nil, ""); head.Status != 200 || head.Length != 13 || head.Body != "" {
			t.Errorf("HEAD: %+v", head)
		}
	})
}

func TestAllocations(t *testing.T) {
	modtest.Run(t, func(t *testing.T, handoff coro.Handoff) {
		s := modtest.Start(t, "/", helloworld.Serve, handoff)
		if n := s.Allocs(t, "GET /hello HTTP/1.1\r\nHost: test.example\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n"); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func TestRegister(t *testing.T) {
	var r handlers.Registry
	helloworld.Register(&r)
	if _, ok := r.Handler("hello_world"); !ok {
		t.Error("not registered")
	}
}
