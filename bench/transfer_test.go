package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// bulkHandler does what the scripts do; change may spoil a download.
func bulkHandler(change func(p []byte) []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
			return
		}
		n, _ := strconv.Atoi(r.URL.Query().Get("bytes"))
		body := strings.Repeat("0123456789abcdef", n/16+1)[:n]
		w.Header().Set("Content-Length", strconv.Itoa(n))
		w.Write(change([]byte(body)))
	})
}

func TestTransfer(t *testing.T) {
	addr := startHandler(t, bulkHandler(func(p []byte) []byte { return p }))
	for _, upload := range []bool{false, true} {
		o := transferOptions{Addr: addr, Path: "/x", Bytes: 5_000_001, Upload: upload, PIDs: []int{os.Getpid()}}
		report, err := loadTransfer(o)
		if err != nil || report.Took <= 0 || report.Before <= 0 || report.Most <= 0 || report.CPU.total() <= 0 {
			t.Errorf("upload %v: %+v, %v", upload, report, err)
		}
	}
}

func TestTransferNoticesWrongBytes(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"one byte":  func(p []byte) []byte { p[len(p)-1] ^= 1; return p },
		"cut":       func(p []byte) []byte { return p[:len(p)-1] },
		"one twice": func(p []byte) []byte { copy(p[101:], p[100:]); return p },
	} {
		if err := (transferOptions{Addr: startHandler(t, bulkHandler(change)), Path: "/x"}).move(100_000); err == nil {
			t.Errorf("%s: passed", name)
		}
	}
	if err := (transferOptions{Addr: startHandler(t, http.NotFoundHandler()), Path: "/x", Upload: true}).move(10); err == nil {
		t.Error("an upload to nowhere passed")
	}
}

// waitingHandler is a server with an application that holds requests.
func waitingHandler() http.Handler {
	var waiting atomic.Int64
	release := make(chan chan struct{}, 1)
	release <- make(chan struct{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case heldScript:
			fmt.Fprint(w, waiting.Load())
			return
		case releaseScript:
			close(<-release)
			release <- make(chan struct{})
		case holdScript:
			c := <-release
			waiting.Add(1)
			release <- c
			<-c
			waiting.Add(-1)
		}
		io.WriteString(w, hello)
	})
}

func TestWaiting(t *testing.T) {
	options := func(h http.Handler) waitingOptions {
		addr := startHandler(t, h)
		return waitingOptions{Conns: 20, Settle: time.Millisecond, Open: openLoopOptions{Addr: addr,
			Request: works[0].request(addr), Depth: 1, Conns: 2, Rate: 500, Duration: 50 * time.Millisecond,
			Body: int64(len(hello)), PIDs: []int{os.Getpid()}}}
	}
	report, err := loadWaiting(options(waitingHandler()))
	if err != nil || report.Before <= 0 || report.Waiting <= 0 || report.Alone.Answers != 25 || report.Beside.Answers != 25 {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := loadWaiting(options(http.NotFoundHandler())); err == nil {
		t.Error("a server without the application passed")
	}
}

func TestBurst(t *testing.T) {
	var asked atomic.Int64
	addr := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server", "x")
		w.Header().Set("Content-Type", "text/plain")
		if asked.Add(1)%3 == 0 {
			w.WriteHeader(http.StatusBadGateway)
		}
		io.WriteString(w, hello)
	}))
	w := work{path: "/", conns: 6, depth: 1, body: []byte(hello), text: true}
	report, err := measureBurst(context.Background(), w, &server{addr: addr}, 0)
	if err != nil || report.bursts != 1 || report.failed != 2 || report.last <= 0 {
		t.Errorf("%+v, %v; want 2 of 6 to fail", report, err)
	}
}
