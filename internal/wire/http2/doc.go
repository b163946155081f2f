// Package http2 is what both sides of HTTP/2 (RFC 9113) share, with its field compression, HPACK
// (RFC 7541). It knows no socket and no loop: package conn (the server) and
// internal/upstream/http2client move the bytes, and own the streams.
//
//	wire.go      Wire: one side of a connection, and its received frames
//	output.go    the output of a Wire
//	queue.go     Sender: the half of a stream that sends, and the order in which streams do
//	inbox.go     Inbox: received content that was not read yet
//	block.go     Block: a field block in several frames
//	flow.go      Inflow: a window for the peer's content; Growth
//	peercost.go  the cost of a peer's frames, and when the peer is no longer read or served
//	frame.go     the format of frames
//	hpack.go     Decoder, Fields: from a field block (RFC 7541) to fields
//	encode.go    from fields to a field block
//	huffman.go   the Huffman code
//	static.go    the static table
//	request.go   fields of requests
//	response.go  fields of answers
//	priority.go  values of RFC 9218
//	state.go     what clients may send on a stream
package http2
