// Package fcgitest is a FastCGI application for tests that does as it is told, right or wrong: ordinary goroutines
// and package net, with a decoder of requests of its own, so that an error of package wire does not hide itself.
//
// A test starts an Upstream with a Script, which is called for every connection and says what happens on it:
//
//	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
//		c.Read()
//		c.Stdout("Content-Type: text/plain\r\n\r\nhel")
//		c.Reset()
//	})
//	dial(up.Address)
//
// Requests are checked as they are read, and whatever is wrong with one fails the test: see decode.go for the list. A
// peer that closes is nothing wrong; the script ends there.
//
//	upstream.go  Upstream: listening, workers, stopping; what was received
//	conn.go      Conn: what a script can do
//	decode.go    the checking decoder
//	cases.go     Cases: scripts for everything an application gets wrong, and what has to become of it
package fcgitest
