package main

import (
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const goodAnswer = "HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length:  5\r\nDate: now\r\n\r\nhello"

// Answers are found however the stream is cut.
func TestAnswerFeed(t *testing.T) {
	stream := []byte(strings.Repeat(goodAnswer, 3))
	for cut := range stream {
		var a answer
		first, err := a.feed(stream[:cut], 5)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		second, err := a.feed(stream[cut:], 5)
		if err != nil || first+second != 3 || first != cut/len(goodAnswer) {
			t.Fatalf("cut at %d: %d and %d answers, %v", cut, first, second, err)
		}
	}
	var a answer
	ended := 0
	for i := range stream {
		n, err := a.feed(stream[i:i+1], 5)
		if err != nil {
			t.Fatal(err)
		}
		ended += n
	}
	if ended != 3 {
		t.Errorf("byte by byte: %d answers", ended)
	}
}

func TestAnswerFeedRejects(t *testing.T) {
	rows := map[string]string{
		"status":       strings.Replace(goodAnswer, "200 OK", "503 No", 1),
		"length":       strings.Replace(goodAnswer, "  5", "  6", 1),
		"no length":    strings.Replace(goodAnswer, "content-length", "x-length", 1),
		"no number":    strings.Replace(goodAnswer, "  5", "  x", 1),
		"endless head": "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", maxHead),
		"other bytes":  "hello" + goodAnswer,
	}
	for name, stream := range rows {
		var a answer
		if ended, err := a.feed([]byte(stream), 5); err == nil {
			t.Errorf("%s: %d answers and no error", name, ended)
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
	srv := &http.Server{Handler: h}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	return ln.Addr().String()
}

func options(addr string, w work, perSecond float64, d time.Duration) openLoopOptions {
	return openLoopOptions{Addr: addr, Request: w.request(addr), Depth: w.depth, Conns: w.conns,
		Rate: perSecond, Duration: d, Body: int64(len(w.body)), PIDs: []int{os.Getpid()}}
}

func TestOpenLoopSendsAllOfThem(t *testing.T) {
	addr := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(hello)) }))
	for _, depth := range []int{1, 4} {
		w := work{path: "/", conns: 3, depth: depth, body: []byte(hello)}
		report, err := openLoop(options(addr, w, 500, 100*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(50 * depth); report.Answers != want {
			t.Errorf("depth %d: %d answers, want %d", depth, report.Answers, want)
		}
		if report.P50 <= 0 || report.P50 > report.P99 || report.P99 > report.Max || report.CPU.total() <= 0 {
			t.Errorf("depth %d: %+v", depth, report)
		}
	}
}

// One stall of a server with one connection delays every request that was due meanwhile, and all of them count. A
// client that waited for the answer before it sent the next would see one slow request in a hundred.
func TestOpenLoopCountsTheStall(t *testing.T) {
	const stall = 200 * time.Millisecond
	served := 0
	addr := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if served++; served == 11 {
			time.Sleep(stall)
		}
		w.Write([]byte(hello))
	}))
	w := work{path: "/", conns: 1, depth: 1, body: []byte(hello)}
	report, err := openLoop(options(addr, w, 250, 400*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if report.Answers != 100 || report.Max < stall {
		t.Errorf("%d answers, longest %v", report.Answers, report.Max)
	}
	// Of 100 requests, one each 4 ms, about 50 were due in the stall: on average they waited half of it.
	if report.P99 < stall/4 {
		t.Errorf("p99 is %v after a stall of %v", report.P99, stall)
	}
}

// An open loop that is never answered ends, and says how long everything has waited.
func TestOpenLoopGivesUp(t *testing.T) {
	served := 0
	block := make(chan struct{})
	addr := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if served++; served > 1 {
			<-block
		}
		w.Write([]byte(hello))
	}))
	defer close(block)
	w := work{path: "/", conns: 1, depth: 1, body: []byte(hello)}
	report, err := openLoop(options(addr, w, 100, 50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	if report.Answers != 0 || report.P50 < time.Second {
		t.Errorf("%+v", report)
	}
}

func TestFreeRing(t *testing.T) {
	c := &client{free: []int32{0, 1, 2}}
	take := func() int32 {
		i := c.free[c.head]
		c.head = (c.head + 1) % len(c.free)
		c.busy++
		return i
	}
	var order []int32
	order = append(order, take(), take(), take())
	if c.hasFree() {
		t.Error("free after all were taken")
	}
	c.release(2)
	c.release(0)
	order = append(order, take())
	c.release(1)
	order = append(order, take(), take())
	if want := []int32{0, 1, 2, 2, 0, 1}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}
