package main

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const goodAnswer = "HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length:  5\r\nDate: now\r\n\r\nhello"

// Answers are found however the stream is cut.
func TestFeed(t *testing.T) {
	stream := []byte(strings.Repeat(goodAnswer, 3))
	for cut := range stream {
		var c turn
		first, err := c.feed(stream[:cut], len(goodAnswer))
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		second, err := c.feed(stream[cut:], len(goodAnswer))
		if err != nil || first+second != 3 || first != cut/len(goodAnswer) {
			t.Fatalf("cut at %d: %d and %d answers, %v", cut, first, second, err)
		}
	}
	var c turn
	ended := 0
	for i := range stream {
		n, err := c.feed(stream[i:i+1], len(goodAnswer))
		if err != nil {
			t.Fatal(err)
		}
		ended += n
	}
	if ended != 3 {
		t.Errorf("byte by byte: %d answers", ended)
	}
}

// A chunked answer ends with its last chunk, however the stream is cut and whatever the chunks are.
func TestFeedChunked(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, answer := range []string{head + "5\r\nhello\r\n0\r\n\r\n",
		head + "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"} {
		for size := 1; size <= len(answer); size++ {
			var c turn
			for range 2 {
				ended, at := 0, 0
				for piece := range slices.Chunk([]byte(answer), size) {
					n, err := c.feedChunked(piece, 5)
					if err != nil {
						t.Fatalf("%d bytes at a time: %v", size, err)
					}
					ended += n
					if at += len(piece); ended > 0 && at < len(answer) {
						t.Fatalf("%d bytes at a time: ended after %d", size, at)
					}
				}
				if ended != 1 {
					t.Fatalf("%d bytes at a time: %d answers", size, ended)
				}
			}
		}
	}
	for name, answer := range map[string]string{
		"status": "HTTP/1.1 500 No\r\n\r\n0\r\n\r\n", "shorter than its body": head + "0\r\n\r\n",
	} {
		var c turn
		if ended, err := c.feedChunked([]byte(answer), 100); err == nil {
			t.Errorf("%s: %d answers and no error", name, ended)
		}
	}
}

// Whole loops with chunked answers.
func TestLoadChunked(t *testing.T) {
	text := gzipped(sourceText())
	addr := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(text[:1000])
		http.NewResponseController(w).Flush()
		w.Write(text[1000:])
	}))
	j := jobAt(addr, 3, 1, 0, 50*time.Millisecond)
	j.Path, j.Encoding = textPath, "gzip"
	f, err := attempt(loadHTTP, j)
	if err != nil || f["size"] != float64(len(text)) || f["perSecond"] <= 0 || f["halfCPU"] <= 0 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestFeedRejects(t *testing.T) {
	rows := map[string]string{
		"status":      strings.Replace(goodAnswer, "200 OK", "503 No", 1),
		"shorter":     strings.Replace(goodAnswer, "  5", " 5", 1),
		"longer":      strings.Replace(goodAnswer, "now", "later", 1),
		"other bytes": "hello" + goodAnswer,
	}
	for name, stream := range rows {
		var c turn
		if ended, err := c.feed([]byte(stream+goodAnswer), len(goodAnswer)); err == nil {
			t.Errorf("%s: %d answers and no error", name, ended)
		}
	}
}

// The first answer, whose size the others are to have, is looked at closely.
func TestOpenLoopRejects(t *testing.T) {
	for want, answer := range map[string]string{
		"status 503":         strings.Replace(goodAnswer, "200 OK", "503 No", 1),
		"Content-Length 5":   goodAnswer,
		"unexpected EOF":     strings.Replace(goodAnswer, "  5", "  6", 1),
		"bad Content-Length": strings.Replace(goodAnswer, "  5", "  x", 1),
	} {
		ln := listen(t)
		go func() {
			for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
				conn.Read(make([]byte, 4096))
				conn.Write([]byte(answer))
				conn.Close()
			}
		}()
		if _, err := attempt(loadLoop, jobAt(ln.Addr().String(), 1, 1, 100, 0)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// startHandler serves on loopback until the test ends.
func startHandler(t *testing.T, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "x") // which every server has
		h.ServeHTTP(w, r)
	})}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	return ln.Addr().String()
}

func jobAt(addr string, conns, depth int, perSecond float64, d time.Duration) job {
	return job{Addr: addr, Group: ownGroup, timing: timing{Duration: d},
		Patience: verifyLimit,
		load:     load{Path: "/", Conns: conns, Depth: depth, Size: int64(len(hello)), Rate: perSecond}}
}

func TestOpenLoopSendsAllOfThem(t *testing.T) {
	addr := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(hello))
	}))
	for _, depth := range []int{1, 4} {
		f, err := attempt(loadLoop, jobAt(addr, 3, depth, 500*float64(depth), 100*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		if want := float64(500 * depth); f["perSecond"] != want {
			t.Errorf("depth %d: %v answers/s, want %v", depth, f["perSecond"], want)
		}
		if f["latency50"] <= 0 || f["latency50"] > f["latency99"] || f["latency99"] > f["longest"] ||
			f["cpu"] <= 0 {
			t.Errorf("depth %d: %+v", depth, f)
		}
	}
}

// One stall of a server with one connection delays every request that was due meanwhile, and all of
// them count. A client that waited for the answer before it sent the next would see one slow
// request in a hundred.
func TestOpenLoopCountsTheStall(t *testing.T) {
	const stall = 200 * time.Millisecond
	served := 0
	addr := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if served++; served == 11 {
			time.Sleep(stall)
		}
		w.Write([]byte(hello))
	}))
	f, err := attempt(loadLoop, jobAt(addr, 1, 1, 250, 400*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if f["perSecond"] != 250 || f["longest"] < micro(stall) {
		t.Errorf("%v answers/s, longest %v", f["perSecond"], f["longest"])
	}
	// Of 100 requests, one each 4 ms, about 50 were due in the stall: on average they waited half
	// of it.
	if f["latency99"] < micro(stall/4) {
		t.Errorf("p99 is %v µs after a stall of %v", f["latency99"], stall)
	}
}

// An open loop that is never answered ends, and says how long everything has waited.
func TestOpenLoopGivesUp(t *testing.T) {
	served := 0
	block := make(chan struct{})
	addr := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if served++; served > 3 { // two tell the size, the third the connection is ready
			<-block
		}
		w.Write([]byte(hello))
	}))
	defer close(block)
	f, err := attempt(loadLoop, jobAt(addr, 1, 1, 100, 50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if f["perSecond"] != 0 || f["latency50"] < micro(time.Second) {
		t.Errorf("%+v", f)
	}
}

// All connections take part: the one that has been free for longest is next.
func TestOpenLoopUsesAllConnections(t *testing.T) {
	var mu sync.Mutex
	var order []string
	addr := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, r.RemoteAddr)
		w.Write([]byte(hello))
	}))
	if _, err := attempt(loadLoop, jobAt(addr, 3, 1, 100, 60*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	// one each before the clock starts, after the two that tell the size
	for _, addr := range order[2:5] {
		if n := len(slices.DeleteFunc(slices.Clone(order), func(other string) bool {
			return other != addr
		})); n < 2 || n > 4 {
			t.Errorf("order %v, want three in turn", order)
		}
	}
}

// Answers whose heads differ are found however the stream is cut, and others are refused.
func TestFeedVaried(t *testing.T) {
	const other = "HTTP/1.1 200 OK\r\nServer: x\r\nCache-Status: hit\r\ncontent-length:  " +
		"5\r\n\r\nhello"
	stream := []byte(goodAnswer + other + goodAnswer)
	for cut := range stream {
		var c turn
		first, err := c.feedVaried(stream[:cut], 5)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		second, err := c.feedVaried(stream[cut:], 5)
		if err != nil || first+second != 3 {
			t.Fatalf("cut at %d: %d and %d answers, %v", cut, first, second, err)
		}
	}
	for _, bad := range []string{"HTTP/1.1 502 Bad", goodAnswer + "x",
		goodAnswer[:12] + "1" + goodAnswer[13:]} {
		if _, err := new(turn).feedVaried([]byte(bad), 5); err == nil {
			t.Errorf("%q is an answer", bad)
		}
	}
}

// Requests with targets of their own have others each time, and differ in nothing else.
func TestDistinct(t *testing.T) {
	l := load{Path: "/web", Distinct: true, Depth: 2}
	c := &loadClient{job: job{load: l}, request: l.request("h")}
	seen := make(map[string]bool)
	for range 1000 {
		c.renumber()
		seen[string(c.request)] = true
	}
	if want := strings.ReplaceAll(string(l.request("h")), "?00000000",
		"?00001000"); string(c.request) != want ||
		len(seen) != 1000 {
		t.Errorf("%d requests, %q", len(seen), c.request)
	}
	if c.begin('9'); strings.Count(string(c.request), "?90001000 ") != 2 {
		t.Errorf("begun anew: %q", c.request)
	}
}
