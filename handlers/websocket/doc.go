// Package websocket makes WebSockets (RFC 6455) of requests. It reads and writes frames on a green
// thread, over the loop's own connection, and handles limits, keep-alive, UTF-8 and the close.
//
//	c, err := upgrader.Upgrade(req, resp)
//	if err != nil {
//		return websocket.Status(err)
//	}
//	for {
//		kind, message, err := c.ReadMessage() // waits without holding the loop
//		if err != nil || c.WriteMessage(kind, message) != nil {
//			return 0
//		}
//	}
//
// The thread of the request owns both directions: it waits in Conn.AwaitAny for messages and for
// other sources, such as a subscription or a timer, and reads and writes when AwaitAny has
// returned. Other threads and goroutines reach it through such a source, or through the
// connection's Mailbox. Between messages a connection holds no buffers. Dial makes the client's
// end, which is a Conn, too.
//
// Most of thousands of connections wait. Under Upgrader.Serve, a connection that waits holds no
// coroutine either: a Handler is called for each message, and for messages of its subscriptions.
//
//	func (m *member) Open(c *websocket.Conn)                             { c.Subscribe(m.room,
//	                                                                     pubsub.Options{}, m.said) }
//	func (m *member) Message(c *websocket.Conn, kind int, p []byte)      { m.room.Publish(p) }
//	func (m *member) Closed(c *websocket.Conn, err *websocket.CloseError) {}
//
//	return upgrader.Serve(req, resp, &member{room: room})
//
//	upgrade.go    Upgrader: from a request to a Conn
//	dial.go       Dialer: from a URL to a Conn
//	handshake.go  what a client's handshake has to be; offers, origins
//	conn.go       Conn and its fields
//	serve.go      Serve: a Handler, and what calls it
//	follow.go     subscriptions of a connection under Serve
//	last.go       the last messages of a connection under Serve, at a stop
//	notified.go   messages that a connection under Serve sends from the loop itself
//	after.go      the timer of a connection under Serve
//	read.go       messages from the peer
//	reader.go     messages from the peer, while they come
//	write.go      messages to the peer, and messages to many peers
//	writer.go     messages to the peer, in fragments
//	json.go       messages of JSON
//	await.go      waiting for messages and other things; keep-alive
//	input.go      frames from the peer, and the bytes before they are one
//	output.go     frames to the peer, and the waits for room
//	mailbox.go    messages from other goroutines
//	netconn.go    a connection as a net.Conn
//	frame.go      headers and masks of frames: pure
//	utf8.go       text that comes in parts: pure
//	close.go      control frames, and the end
//	ping.go       pings of the program, and the time until their answers
//	deflate.go    compression
//	inflate.go    decompression
//	share.go      how many connections keep windows of their peers
package websocket
