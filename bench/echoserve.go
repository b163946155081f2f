package main

import "net"

// echoBuffer is what a server reads at once: more than a message, so that a read which leaves room has had everything.
const echoBuffer = 16 << 10

// serveGoEcho is what one writes in Go without a thought: a goroutine per connection, read, write. io.Copy would
// splice, and so do something else.
func serveGoEcho(ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			buf := make([]byte, echoBuffer)
			for {
				n, err := conn.Read(buf)
				if err != nil {
					return
				}
				if _, err := conn.Write(buf[:n]); err != nil {
					return
				}
			}
		}()
	}
}
