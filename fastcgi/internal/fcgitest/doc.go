// Package fcgitest is a FastCGI application for tests, which does what a script tells it, right or
// wrong. It runs on ordinary goroutines and package net. It has a decoder of its own, so that a
// fault of package wire does not hide itself.
//
// A test starts an Upstream with a Script, which runs for every connection and says what happens
// there:
//
//	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
//		c.Read()
//		c.Stdout("Content-Type: text/plain\r\n\r\nhel")
//		c.Reset()
//	})
//	dial(up.Address)
//
// The decoder checks each request, and whatever is wrong with one fails the test: decode.go has the
// list. A peer may close at any time; the script ends then.
//
//	upstream.go  Upstream: listening, workers, stopping; what was received
//	conn.go      Conn: what a script can do
//	decode.go    the checking decoder
//	cases.go     Cases: mistakes of applications, and what a client must see of each
//	run.go       Run: runs and judges the cases
package fcgitest
