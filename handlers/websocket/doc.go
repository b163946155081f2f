// Package websocket makes WebSockets (RFC 6455) of requests. Package gorilla/websocket carries the protocol; this package
// has it run on a green thread, over the loop's own connection, and holds what it leaves open.
//
// One thread, that of the request, owns both directions: it waits in Conn.AwaitAny for messages and whatever else there
// is, a subscription, a timer, and reads and writes when it has returned. Other threads and goroutines reach it through
// such a source. Between messages a connection holds no buffers.
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
