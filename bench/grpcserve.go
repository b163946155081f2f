package main

import (
	"io"
	"net"

	"golang.org/x/net/http2"
)

// serveGRPC is the least that a server of gRPC can be, so that what is measured is the proxy before
// it: it sends back the message of any call, when all of it has come.
func serveGRPC(ln net.Listener) error {
	head := pairs(":status", "200", "content-type", "application/grpc")
	trailer := pairs("grpc-status", "0", "grpc-message", "")
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go attempt(func(conn net.Conn) (none struct{}) {
			defer conn.Close()
			buf := make([]byte, 64<<10)
			must(io.ReadFull(conn, buf[:len(http2.ClientPreface)]))
			w := &wire2{nil, conn, buf}
			w.conn2 = newConn2(func(s *stream2) {
				var message []byte
				s.take = func(p []byte) error { message = append(message, p...); return nil }
				s.end = func() error {
					w.head(s, false, head)
					w.send(piece{s: s, p: message, trailer: trailer})
					return nil
				}
			})
			for {
				check(w.turn())
			}
		}, conn)
	}
}
