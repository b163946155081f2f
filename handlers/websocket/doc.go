// Package websocket makes WebSockets (RFC 6455) of requests. Package gorilla/websocket carries the
// protocol; this package runs it on a green thread, over the loop's own connection, and adds what
// it leaves to its caller: limits, keep-alive, UTF-8, the close.
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
// returned. Other threads and goroutines reach it through such a source. Between messages a
// connection holds no buffers.
//
//	upgrade.go    Upgrader: from a request to a Conn
//	handshake.go  what a client's handshake has to be; offers, origins
//	conn.go       Conn: messages
//	await.go      waiting for messages and other things; keep-alive
//	write.go      messages to the client; those for many
//	wire.go       the connection as gorilla sees it: frames of data
//	frame.go      headers of frames
//	close.go      control frames, and the end
//	inflate.go    decompression
package websocket
