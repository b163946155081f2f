// Package neighbours is what the servers of the works of kind beside do next to serving, the same for all.
package neighbours

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Answer is what Serve answers, of the length of the servers' own answers.
const Answer = "HTTP/1.1 200 OK\r\nServer: goroutine\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n" +
	"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nHello, world!"

// Serve has a plain goroutine for each connection, which reads a request's lines up to the empty one and writes Answer.
func Serve(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for in := bufio.NewReader(c); ; {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if strings.TrimRight(line, "\r\n") != "" {
					continue
				}
				if _, err := io.WriteString(c, Answer); err != nil {
					return
				}
			}
		}()
	}
}

// Proxy passes requests on to the server at an address, as requests for hello. It keeps some connections.
func Proxy(backend string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: backend})
			r.Out.URL.Path = "/"
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}
}

// Burn computes for some milliseconds.
func Burn(ms string) {
	n, _ := strconv.Atoi(ms)
	x := uint64(n)
	for end := time.Now().Add(time.Duration(n) * time.Millisecond); time.Now().Before(end); {
		for range 1000 {
			x = x*6364136223846793005 + 1442695040888963407 // a linear congruential generator
		}
	}
	sink.Store(x)
}

var sink atomic.Uint64 // keeps the compiler from leaving the work out
