// Package stream moves bytes on a loop. A Conn is a net.Conn whose calls yield to the loop where
// they would block, so all that takes a net.Conn, an io.Reader or an io.Writer works on it.
//
//	up, err := stream.Dial(t, time.Second, "tcp", "example.org:80") // t: a thread
//	if err != nil {
//		return err
//	}
//	defer up.Close()
//	_, err = io.Copy(resp, up)
//
// Listen accepts streams for threads. StartServer calls a handler for connections that cost nothing
// between messages. HTTP is the business of package conn.
//
// A Conn belongs to its loop: only the loop's threads may call its methods, unless a method says
// otherwise. Package loop says what 0 and a negative limit of time mean.
//
// # Files
//
//	conn.go      Conn: reading, writing, closing
//	try.go       writes that do not wait
//	budget.go    how much one connection may do before others have their turn
//	leave.go     what takes the socket out of a Conn, for good or until its reuse; CloseWrite
//	limit.go     how long the peer may keep a stream waiting: deadlines, Pace
//	progress.go  how much was sent, and how much of it the peer has read
//	duplex.go    Duplex: both directions move at once
//	putoff.go    a last small write, put off to go out with those of other connections
//	addr.go      addresses
//	copy.go      ReadFrom and WriteTo: buffers, sendfile, splice
//	pipe.go      Pipe: bytes between two streams that stay in the kernel
//	cold.go      Warm: reads what sendfile would wait for the disk for
//	dial.go      Dialer: attempts at addresses
//	resolve.go   from names to addresses
//	listen.go    Listen, Accept
//	tls.go       TLSConn: TLS for a thread that reads and one that writes
//	server.go    Server: connections that cost nothing between messages
//	wakes.go     how a stream wakes an idle thread
package stream
