// Package http2client is HTTP/2 (RFC 9113) from the side of the client: a connection on which many
// requests of one loop are under way at a time. A Session belongs to a loop, whose threads use it
// without locks. One thread reads frames and tells the threads of the streams; what these have
// gathered goes out in one write, behind the threads of a turn.
//
//	session.go        Session: the connection, its thread and its end
//	frames.go         frames of the server
//	stream.go         Stream: one request and its answer, for the thread that asks
//	send.go           the output of a Session
//	receivewindow.go  windows: how much the server may send
//	alive.go          for how long a connection is kept, and pings that find a dead one
package http2client
