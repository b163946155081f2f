// Package http2 is what both sides of HTTP/2 (RFC 9113) share, with its field compression, HPACK (RFC
// 7541). It knows no socket and no loop: package conn (the server) and internal/upstream/http2client move
// the bytes, and own the streams.
//
//	wire.go      Wire: what a side of a connection holds; the frames that have come
//	output.go    what a Wire sends
//	queue.go     Sender: the half of a stream that sends, and the order in which streams do
//	inbox.go     Inbox: content of the peer that was not read yet
//	block.go     Block: a field block in several frames
//	flow.go      Inflow: a window for the peer's content; Growth
//	debt.go      what a peer owes, before it is not read any more, or not served
//	frame.go     the wire of frames
//	hpack.go     Decoder, Fields: from a field block (RFC 7541) to fields
//	encode.go    from fields to a field block
//	huffman.go   the Huffman code
//	static.go    the static table
//	request.go   fields of requests
//	response.go  fields of answers
//	priority.go  values of RFC 9218
//	state.go     what clients may send on a stream
package http2
