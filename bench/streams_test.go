package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/bench/tasks"
	"golang.org/x/net/http2"
)

// clearJob is for a server of net/http in clear text.
func clearJob(t *testing.T) job {
	ln := listen(t)
	go serveNetHTTP(ln, "nethttp", t.TempDir(), "", "", false)
	j := tlsJob(t)
	j.Addr, j.Secure = ln.Addr().String(), false
	return j
}

// TestStreams: each client of HTTP/2 finds its figure at a server of net/http, and fails at one
// that has nothing but 404.
func TestStreams(t *testing.T) {
	for _, row := range []struct {
		figure string
		load   func(job) figures
		secure bool
	}{
		{"perSecond", loadVaried, true}, {"timesCPU", loadWaiting, false},
		{"bytesEach", loadIdle2, false}, {"bytesEach", loadIdle2, true},
	} {
		j := clearJob(t)
		if row.secure {
			j = tlsJob(t)
		}
		j.Streams = 5
		f, err := attempt(row.load, j)
		if _, ok := f[row.figure]; !ok || err != nil {
			t.Errorf("%s: %v, %v", row.figure, f, err)
		}
		j.Path = "/files/nothing"
		if f, err := attempt(row.load, j); err == nil || !strings.Contains(err.Error(), "404") {
			t.Errorf("%s: %v, %v", row.figure, f, err)
		}
	}
}

// grpcJob is for the origin of calls itself.
func grpcJob(t *testing.T) job {
	ln := listen(t)
	go serveGRPC(ln)
	j := clearJob(t)
	j.Addr, j.Path, j.Size, j.Streams = ln.Addr().String(), "/a/b", 100_000, 3 // more than a window
	return j
}

func TestGRPC(t *testing.T) {
	if f, err := attempt(loadGRPC, grpcJob(t)); err != nil || f["perSecond"] <= 0 {
		t.Error(f, err)
	}
	j := clearJob(t)
	j.Streams = 3
	if f, err := attempt(loadGRPC, j); err == nil || !strings.Contains(err.Error(), "wrong body") {
		t.Error(f, err)
	}
}

// TestUpload2: what is uploaded arrives, over a line, and the time that it takes is the line's.
func TestUpload2(t *testing.T) {
	j := clearJob(t)
	j.Path, j.Upload, j.Streams, j.Size = tasks.UploadPath, true, 1, 3<<20
	j.Delay, j.Bandwidth = 5*time.Millisecond, 30<<20
	start := time.Now()
	f, err := attempt(loadTransfer, j)
	if took := time.Since(start); err != nil || f["perSecond"] <= 0 || took < 150*time.Millisecond {
		t.Error(f, err, took)
	}
	j.Path = tasks.CollectPath
	if f, err := attempt(loadTransfer, j); err == nil {
		t.Error("an upload to nowhere passed", f)
	}
}

func TestLine(t *testing.T) {
	ln := listen(t)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			defer conn.Close()
			io.Copy(conn, conn)
		}
	}()
	l := newLine(ln.Addr().String(), 20*time.Millisecond, 1<<20)
	defer l.Close()
	conn := must(net.Dial("tcp", l.Addr().String()))
	defer conn.Close()
	sent, start := pattern(100_000), time.Now()
	go conn.Write(sent)
	got := make([]byte, 1)
	must(io.ReadFull(conn, got))
	if took := time.Since(start); took < 40*time.Millisecond {
		t.Errorf("there and back in %v", took)
	}
	rest := make([]byte, len(sent)-1)
	must(io.ReadFull(conn, rest))
	took := time.Since(start)
	if took < 130*time.Millisecond || !bytes.Equal(append(got, rest...), sent) {
		t.Errorf("%d bytes there and back in %v", len(sent), took)
	}
}

// TestWithheld: content waits for the windows, in order, and what is behind it waits, too.
func TestWithheld(t *testing.T) {
	c := newConn2(nil)
	s, sent := new(stream2), pattern(100_000)
	c.request(s, false, pairs(":method", "POST"))
	c.data(s, false, sent[:60_000])
	c.data(s, false, sent[60_000:])
	c.send(piece{s: s, trailer: pairs("x", "y")})
	frames := func() (kinds string, content []byte) {
		for p := c.out; len(p) > 0; {
			n := frameHead + int(binary.BigEndian.Uint32(p)>>8)
			if kind := http2.FrameType(p[3]); kind == http2.FrameData || kind == http2.FrameHeaders {
				kinds += kind.String()[:1]
				if kind == http2.FrameData {
					content = append(content, p[frameHead:n]...)
				}
			}
			p = p[n:]
		}
		return kinds, content
	}
	c.out = c.out[len(http2.ClientPreface):]
	if kinds, content := frames(); kinds != "HDDDD" || !bytes.Equal(content, sent[:60_000]) {
		t.Error(kinds, len(content))
	}
	grow := newConn2(func(*stream2) {})
	grow.grow(s.id, 100_000)
	check(c.feed(grow.out))
	if kinds, content := frames(); kinds != "HDDDDDDDDH" || !bytes.Equal(content, sent) {
		t.Error(kinds, len(content))
	}
}

func TestGood2(t *testing.T) {
	for block, want := range map[string]bool{
		"\x88": true, "\x20\x88abc": true, "\x3f\xe1\x1f\x88": true, "\x3f\xe1\x1f\x20\x88": true,
		"": false, "\x20": false, "\x3f\xe1": false, "\x89": false, "\x8d": false, "\x08\x03200": false,
	} {
		if got := good2([]byte(block)); got != want {
			t.Errorf("% x: %v", block, got)
		}
	}
}
