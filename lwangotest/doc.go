// Package lwangotest is for tests of handlers, as net/http/httptest is for those of net/http.
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
// The server is a real one, on an event loop and at a free port of the loopback address: what a
// handler does, it does as in production. It takes well under a millisecond to start, so each test
// can have its own, and tests may run in parallel. It ends with its test, which waits for the
// handlers that still run.
//
// # Time
//
// A test of a handler that waits for an hour does not wait for an hour: Server.Skip puts the loop's
// clock forward, and with it all that waits for its time on the loop. These are Sleep, After, the
// limits of all waits, the server's own timeouts, and what a connection may or must move in a time
// (Config.MinRate, Response.SetMaxRate). Not affected are time.Now, timers of package time,
// contexts with a deadline of their own, how many requests a client may send in a time
// (handlers/limit), and what runs off the loop.
//
// Parts that have no loop in them can be tested with testing/synctest, and so can clients, if the
// server is started outside the bubble. A bubble's clock goes on when all its goroutines are
// durably blocked, and neither a read from the network nor a loop's epoll_wait(2) is such a wait.
// So the clock stands still while a request is under way, and a server within a bubble would hold
// it for ever.
//
// # Handlers of net/http
//
// A handler that is given to lwango.HTTP remains an http.Handler: tests may go on calling it with
// an httptest.ResponseRecorder. Start(t, lwango.HTTP(h)) asks it by way of the bridge.
package lwangotest
