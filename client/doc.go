// Package client is HTTP/1.1 (RFC 9110, RFC 9112) from the client's side, on the connections of a
// loop. An Exchange can also be a stream of HTTP/2 (RFC 9113), and a Client speaks that if it is told
// to.
//
//	answer, err := client.Get(t, 2*time.Second, "https://example.org/price") // t: a thread
//	if err != nil {
//		return err
//	}
//	_, err = io.Copy(resp, answer.Body)
//
// Get and Do are for handlers: one line asks another server, and the thread waits for the answer
// without holding its loop. A Client has the connections that are kept between such requests, for
// all loops of the process; internal/upstream chooses among them and makes new ones, over TLS if
// the address says so. There is no cache, no cookie jar and no proxy; what a request of net/http's
// kind needs beyond that runs in Thread.Await.
//
// An Exchange is one request and its answer, for a proxy, which makes and frames all that it sends
// by itself. Both move at once: the answer may begin before the request has been sent, and neither
// side has to read all before it writes. The caller makes the connection, perhaps one that has
// served other requests, writes the request's head and frames its body. The Exchange sends what
// there is room for, and finds heads, body and end in what comes back. Only Await waits. So a proxy
// can pass on both directions on one thread.
//
//	client.go    Client, Request, Response
//	fetch.go     Body: a Client's exchange, and the answer's body as it comes
//	exchange.go  Exchange
//	mux.go       an Exchange by HTTP/2
//	body.go      a request's body, and its framing
package client
