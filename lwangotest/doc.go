// Package lwangotest tests handlers of lwango, as net/http/httptest tests those of net/http.
//
//	func TestMain(m *testing.M) { lwangotest.Main(m) } // nothing may be left behind
//
//	func TestGreets(t *testing.T) {
//		s := lwangotest.Start(t, greet)
//		if a := s.Get("/?name=Ann"); a.StatusCode != 200 || a.Text != "Hello, Ann\n" {
//			t.Errorf("%s: %q", a.Status, a.Text)
//		}
//		a := s.Do("POST", "/", `{"name": "Ann"}`, "Content-Type: application/json")
//		if a.StatusCode != 405 {
//			t.Errorf("%s: %q", a.Status, a.Text)
//		}
//	}
//
// The server is a real one, on an event loop and at a free port of the loopback address, so a
// handler runs as in production. A server starts in well under a millisecond, so each test can have
// its own, and tests may run in parallel. It ends with its test, which waits for the handlers that
// still run.
//
// Do gives a handler one request, and needs no server for that:
//
//	a := lwangotest.Do(t, greet, httptest.NewRequest("GET", "/?name=Ann", nil))
//
// StartServer starts a whole lwango.Server, with TLS, HTTP/2 and a configuration. Of both kinds of
// servers, WebSocket and Events are clients:
//
//	w := s.WebSocket("/chat")
//	w.Send("hello")
//	w.Expect("Ann: hello")
//
//	e := s.Events("/news")
//	e.Expect(lwangotest.Event{Name: "weather", Data: "rain"})
//
//	server.go       Server, of one handler, and its client of HTTP
//	startserver.go  StartServer: a whole server; certificates
//	do.go           Do: a request without a server
//	websocket.go    WebSocket: a client, by HTTP/1.1 and HTTP/2
//	events.go       Events: a client of an event stream
//	inbox.go        what the two have received and the test has not yet taken
//	main.go         Main: what tests leave behind
//
// # Time
//
// A test of a handler that waits for an hour does not wait for an hour: Server.Advance puts the
// loop's clock forward, and with it all timers of the loop: Sleep, After, the limits of all waits,
// the server's own timeouts, and rates of connections (Config.MinRate, Response.SetMaxRate). It
// does not affect time.Now, timers of package time, contexts with a deadline of their own, the
// rates of requests in handlers/limit, and functions off the loop.
//
// Code without a loop can be tested with testing/synctest, and so can clients, if the server is
// started outside the bubble. A bubble's clock goes on when all its goroutines are durably blocked,
// and neither a read from the network nor a loop's epoll_wait(2) is such a wait. So the clock
// stands still while a request is under way, and a server within a bubble would stop it for ever.
//
// # Handlers of net/http
//
// A handler that is given to lwango.HTTP remains an http.Handler: tests may go on calling it with
// an httptest.ResponseRecorder. Start(t, lwango.HTTP(h)) tests it behind the bridge.
package lwangotest
