// Package http2 reads and writes the wire of HTTP/2 (RFC 9113) and its field compression, HPACK (RFC
// 7541). It is pure: bytes in, values out. Package conn moves the bytes and owns the streams.
package http2
