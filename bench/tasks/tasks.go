// Package tasks is what the benchmark's servers do alike: the same code runs on lwango and on
// net/http. In the chat a text message into a room goes to all its members, its sender too, as it
// came; the echo sends it back. Neither compresses.
package tasks

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The paths of the works that a server needs code for.
const (
	BridgePath  = "/bridge"
	SleepPath   = "/sleep" // ?ms=N
	ProxyPath   = "/proxy"
	BurnPath    = "/burn" // ?ms=N: two functions compute for so long
	EchoPath    = "/ws-echo"
	RoomPath    = "/ws-room" // ?room=R
	CollectPath = "/collect"
)

// Server is what Hello answers as.
const Server = "http.Handler"

// The rules of the chat.
const (
	Queue        = 64      // messages for a member that does not read; one more ends it
	MessageLimit = 4 << 10 // bytes
	PingEvery    = 30 * time.Second
	DeadAfter    = 40 * time.Second // without a sign of life
	WriteLimit   = 10 * time.Second // for a message to leave
)

// Hello answers as every server of the benchmark does, and sets the fields itself that others have
// from elsewhere.
var Hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Server", Server)
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, "Hello, world!")
})

var sleeping atomic.Int64 // handlers

// Sleep runs a server's own sleep for the query's ms milliseconds and returns the answer: by how
// many microseconds it woke late, and how many handlers slept just before.
func Sleep(ms string, sleep func(time.Duration) error) (string, error) {
	n, err := strconv.Atoi(ms)
	if err != nil {
		return "", err
	}
	d := time.Duration(n) * time.Millisecond
	sleeping.Add(1)
	start := time.Now()
	err = sleep(d)
	late := time.Since(start) - d
	return fmt.Sprint(late.Microseconds(), sleeping.Add(-1)+1), err
}

// Collect returns when no garbage is left and the kernel has the memory back: a sync.Pool outlives
// one collection, and a stack is halved by each that finds it too large.
func Collect() {
	for range 4 {
		debug.FreeOSMemory()
	}
}

// Answer is what Serve answers, as long as the servers' own answers.
const Answer = "HTTP/1.1 200 OK\r\nServer: goroutine\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n" +
	"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n\r\nHello, world!"

// Serve has a plain goroutine for each connection, which reads a request's lines up to the empty
// one and writes Answer.
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
				if err == nil && strings.TrimSpace(line) == "" {
					_, err = io.WriteString(c, Answer)
				}
				if err != nil {
					return
				}
			}
		}()
	}
}

// Proxy passes requests on to the server at an address, as requests for hello. It keeps
// connections.
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
