// Package stream moves bytes on a loop: Stream is a net.Conn whose calls yield to the loop where
// they would block. Dial and Listen make streams for threads, and Serve calls a handler for
// connections that cost nothing between messages. The package knows nothing of HTTP, which is
// package conn's.
//
// A Stream belongs to its loop: the loop's threads call its methods, and nothing else does, unless
// a method says otherwise.
//
//	stream.go    Stream: reading, writing, closing, Detach
//	limit.go     how long the peer may keep a stream waiting: deadlines, Pace
//	duplex.go    Duplex: both directions at once
//	addr.go      addresses
//	copy.go      ReadFrom and WriteTo: buffers, sendfile, splice
//	dial.go      Dialer: attempts at addresses
//	resolve.go   from names to addresses
//	listen.go    Listen, Accept
//	serve.go     Serve: connections that cost nothing between messages
package stream
