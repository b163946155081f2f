// Package client is HTTP/1.1 (RFC 9110, RFC 9112) from the client's side, on the connections of a
// loop. A Client speaks HTTP/2 (RFC 9113), too, if it is told to.
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
// kind needs beyond that runs in Thread.Await. Package loop says what 0 and a negative limit mean.
//
//	client.go     Client, Request, Response
//	fetch.go      Body: a Client's exchange, and the answer's body as it comes
//	body.go       a request's body, and its framing
//	transport.go  Transport: a Client for libraries that take an http.Client
package client
