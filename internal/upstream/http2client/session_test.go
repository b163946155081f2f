package http2client_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream/http2client"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TestRequest: what the server gets, and its answers in all forms.
func TestRequest(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	s := dial(t, run(t), "", func(p *fakeServer) {
		f, fields := p.await(http2.Headers)
		seen <- fields
		if f.Flags != end|endHeaders || f.Stream != 1 {
			t.Error(f)
		}
		p.send(http2.Headers, endHeaders, 1, block(":status", "103", "link", "x"))
		p.send(http2.Headers, endHeaders, 1, block(":status", "100"))
		p.send(http2.Headers, http2.Padded, 1, "\x02"+ok+"..")
		p.send(http2.Continuation, 0, 1, block("a", "b")[:3])
		p.send(http2.Continuation, endHeaders, 1, block("a", "b")[3:])
		p.send(http2.Data, http2.Padded, 1, "\x03hel...")
		p.send(http2.Data, 0, 1, "lo")
		p.send(http2.Headers, end|endHeaders, 1, block("grpc-status", "0"))
		for _, b := range []string{block(":status", "200", "content-length", "5"),
			block(":status", "304", "content-length", "5"),
			block(":status", "200", "grpc-status", "5")} {
			f, _ := p.await(http2.Headers)
			p.send(http2.Headers, end|endHeaders, f.Stream, b)
		}
		p.drain()
	})
	if g := s.get(); g.String() != `2+200 "hello" "grpc-status:0;" <nil>` {
		t.Error(g)
	}
	if f := <-seen; f != ":method:GET\n:scheme:http\n:path:/a\n:authority:b\nx-a:c\n" {
		t.Errorf("%q", f)
	}
	for _, tt := range [][2]string{{"HEAD", `0+200 "" "" <nil>`}, {"GET", `0+304 "" "" <nil>`},
		{"GET", `0+200 "" "" <nil>`}} {
		if g := <-s.start(tt[0], ""); g.String() != tt[1] {
			t.Error(tt, g)
		}
	}
}

// TestMalformed: an answer that breaks a rule ends its stream alone.
func TestMalformed(t *testing.T) {
	t.Parallel()
	headers := func(flags uint8, b string) []byte { return raw(http2.Headers, flags|endHeaders, 1, b) }
	data := func(flags uint8, b string) []byte { return raw(http2.Data, flags, 1, b) }
	for name, frames := range map[string][][]byte{
		"data first":       {data(0, "x")},
		"no status":        {headers(0, block("a", "b"))},
		"two statuses":     {headers(0, ok+ok)},
		"late status":      {headers(0, block("a", "b")+ok)},
		"odd status":       {headers(0, block(":status", "20x"))},
		"upgrade":          {headers(0, block(":status", "101"))},
		"interim end":      {headers(end, block(":status", "103"))},
		"upper case":       {headers(0, ok+block("A", "b"))},
		"no token":         {headers(0, ok+block("a(", "b"))},
		"line end":         {headers(0, ok+block("a", "b\r\nc: d"))},
		"connection":       {headers(0, ok+block("connection", "close"))},
		"coding":           {headers(0, ok+block("transfer-encoding", "chunked"))},
		"lengths":          {headers(0, ok+block("content-length", "1", "content-length", "2"))},
		"bad length":       {headers(0, ok+block("content-length", "+1"))},
		"too long":         {headers(0, ok+block("content-length", "1")), data(0, "xx")},
		"too short":        {headers(0, ok+block("content-length", "2")), data(end, "x")},
		"none":             {headers(end, ok+block("content-length", "2"))},
		"content of 204":   {headers(0, block(":status", "204")), data(0, "x")},
		"open trailers":    {headers(0, ok), headers(0, block("a", "b"))},
		"status in those":  {headers(0, ok), headers(end, ok)},
		"fields too large": {headers(0, ok+strings.Repeat(block("a", strings.Repeat("b", 100)), 10))},
		"trailers, too": {headers(0, ok),
			headers(end, strings.Repeat(block("a", strings.Repeat("b", 100)), 10))},
		"update of 0": {raw(http2.WindowUpdate, 0, 1, uint32s(0))},
		"overflow":    {raw(http2.WindowUpdate, 0, 1, uint32s(1<<31-1))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := dial(t, run(t), "", func(p *fakeServer) {
				p.await(http2.Headers)
				for _, f := range frames {
					_, _ = p.Write(f)
				}
				if f, _ := p.await(http2.RSTStream); f.Stream != 1 {
					t.Error(f)
				}
				answers(p)
			})
			if g := s.get(); !errors.Is(g.err, http2client.ErrMalformed) {
				t.Error(g)
			}
			if g := s.get(); g.body != "hello" || g.err != nil {
				t.Error("the next one: ", g)
			}
		})
	}
}

// TestMistakes: what ends the connection, with which code, and what the request gets.
func TestMistakes(t *testing.T) {
	t.Parallel()
	many := func(n int, f []byte) []byte { return []byte(strings.Repeat(string(f), n)) }
	first := raw(http2.Headers, 0, 1, ok)
	for name, tt := range map[string]struct {
		frames []byte
		code   http2.Code
	}{
		"push": {raw(http2.PushPromise, endHeaders, 1, "\x00\x00\x00\x02"),
			http2.ProtocolError},
		"push allowed": {raw(http2.SettingsFrame, 0, 0, setting(http2.EnablePush, 1)),
			http2.ProtocolError},
		"even stream":          {raw(http2.Headers, end|endHeaders, 2, ok), http2.ProtocolError},
		"idle stream":          {raw(http2.Data, 0, 3, "x"), http2.ProtocolError},
		"reset of an idle one": {raw(http2.RSTStream, 0, 3, uint32s(0)), http2.ProtocolError},
		"too long":             {http2.AppendHeader(nil, http2.Data, 0, 1, 1<<20), http2.FrameSizeError},
		"odd settings":         {raw(http2.SettingsFrame, 0, 0, "x"), http2.FrameSizeError},
		"frame size": {raw(http2.SettingsFrame, 0, 0, setting(http2.MaxFrameSize, 1)),
			http2.ProtocolError},
		"window": {raw(http2.SettingsFrame, 0, 0, setting(http2.InitialWindowSize, 1<<31)),
			http2.FlowControlError},
		"update of 0": {raw(http2.WindowUpdate, 0, 0, uint32s(0)), http2.ProtocolError},
		"overflow":    {raw(http2.WindowUpdate, 0, 0, uint32s(1<<31-1)), http2.FlowControlError},
		"padding":     {raw(http2.Data, http2.Padded, 1, "\x09x"), http2.ProtocolError},
		"table": {raw(http2.Headers, endHeaders, 1, "\xff\xff\xff\x00"),
			http2.CompressionError},
		"stray continuation": {raw(http2.Continuation, endHeaders, 1, ok), http2.ProtocolError},
		"block interrupted": {append(first[:len(first):len(first)],
			raw(http2.Ping, 0, 0, "12345678")...), http2.ProtocolError},
		"list of 100 MB": {append(first[:len(first):len(first)],
			many(100, raw(http2.Continuation, 0, 1, strings.Repeat("\x00\x01a\x01b", 3000)))...),
			http2.EnhanceYourCalm},
		"fragments": {append(first[:len(first):len(first)],
			many(200, raw(http2.Continuation, 0, 1, ""))...), http2.EnhanceYourCalm},
		"settings": {many(2000, raw(http2.SettingsFrame, 0, 0, "")), http2.EnhanceYourCalm},
		"pings":    {many(2000, raw(http2.Ping, 0, 0, "12345678")), http2.EnhanceYourCalm},
		"empty data": {append(raw(http2.Headers, endHeaders, 1, ok),
			many(2000, raw(http2.Data, 0, 1, ""))...), http2.EnhanceYourCalm},
		"updates": {many(2000, raw(http2.WindowUpdate, 0, 1, uint32s(1))), http2.EnhanceYourCalm},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := dial(t, run(t), "", func(p *fakeServer) {
				p.await(http2.Headers)
				_, _ = p.Write(tt.frames)
				p.drain()
			})
			if g := s.get(); !errors.Is(g.err, http2client.ErrMalformed) || !errors.Is(g.err, tt.code) {
				t.Error(g)
			}
			<-s.ended
		})
	}
}

// TestNoHTTP2: a server of another protocol.
func TestNoHTTP2(t *testing.T) {
	t.Parallel()
	s := dialRaw(t, run(t), func(p *fakeServer) {
		preface := make([]byte, len(http2.Preface))
		_, _ = io.ReadFull(p, preface)
		p.await(http2.Headers)
		_, _ = p.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		p.drain()
	})
	if g := s.get(); g.err == nil || !strings.Contains(g.err.Error(), "does not speak HTTP/2") {
		t.Error(g)
	}
}

// TestGoAway: requests beyond the last one that was taken can be sent again; the others go on.
func TestGoAway(t *testing.T) {
	t.Parallel()
	s := dial(t, run(t), "", func(p *fakeServer) {
		p.await(http2.Headers)
		p.await(http2.Headers)
		p.await(http2.Headers)
		p.send(http2.GoAway, 0, 0, uint32s(1, 0))
		p.send(http2.Headers, endHeaders, 1, ok)
		p.send(http2.Data, end, 1, "hello")
		p.drain()
	})
	all := []<-chan got{s.start("GET", ""), s.start("GET", ""), s.start("GET", "")}
	if g := <-all[0]; g.body != "hello" || g.err != nil {
		t.Error(g)
	}
	for _, c := range all[1:] {
		if g := <-c; !errors.Is(g.err, http2client.ErrRefused) {
			t.Error(g)
		}
	}
	<-s.ended
	if g := s.get(); g.err == nil {
		t.Error("another request: ", g)
	}
}

// TestReset: RST_STREAM ends a stream alone. REFUSED_STREAM says that it can be sent again, and one
// behind the answer says nothing.
func TestReset(t *testing.T) {
	t.Parallel()
	s := dial(t, run(t), "", func(p *fakeServer) {
		p.await(http2.Headers)
		p.send(http2.RSTStream, 0, 1, uint32s(uint32(http2.RefusedStream)))
		p.await(http2.Headers)
		p.send(http2.RSTStream, 0, 3, uint32s(uint32(http2.InternalError)))
		p.await(http2.Headers)
		p.send(http2.Headers, endHeaders, 5, ok)
		p.send(http2.Data, end, 5, "hello")
		p.send(http2.RSTStream, 0, 5, uint32s(uint32(http2.NoError)))
		answers(p)
	})
	if g := s.get(); !errors.Is(g.err, http2client.ErrRefused) {
		t.Error(g)
	}
	if g := s.get(); !errors.Is(g.err, http2.InternalError) {
		t.Error(g)
	}
	if g := <-s.start("POST", strings.Repeat("x", 1<<20)); g.body != "hello" || g.err != nil {
		t.Error(g)
	}
	if g := s.get(); g.body != "hello" {
		t.Error(g)
	}
}

// TestCancel: a request that is given up costs one RST_STREAM. What the server has sent meanwhile,
// as much as it was allowed to, does no harm.
func TestCancel(t *testing.T) {
	t.Parallel()
	ls := run(t)
	begun, code := make(chan bool), make(chan uint32, 1)
	s := dial(t, ls, "", func(p *fakeServer) {
		p.await(http2.Headers)
		begun <- true
		f, _ := p.await(http2.RSTStream)
		code <- http2.Uint32(f.payload)
		p.send(http2.Headers, endHeaders, 1, ok)
		for range 4 {
			p.send(http2.Data, 0, 1, strings.Repeat("x", 16<<10))
		}
		p.send(http2.RSTStream, 0, 1, uint32s(0))
		answers(p)
	})
	ls.Go(0, func(th *loop.Thread) {
		st, _ := s.Stream(th, liveness)
		st.Open([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), true, 1<<10, false)
		if err := st.Await(wait.Patience); err != nil {
			_ = err
		}
		st.Close()
	})
	<-begun
	ls.On(func(l *loop.Loop) { l.Layer().AdvanceClock(2 * wait.Patience) })
	if c := <-code; http2.Code(c) != http2.Cancel {
		t.Error(c)
	}
	ls.Settled("a server that was silent so long has answered a PING", func(*loop.Loop) bool {
		return s.Room()
	})
	if g := s.get(); g.body != "hello" {
		t.Error(g)
	}
}

// TestSend: content goes out as the windows let it, byte by byte if need be, and beside that of
// others.
func TestSend(t *testing.T) {
	t.Parallel()
	const size = 100_000
	s := dial(t, run(t), setting(http2.InitialWindowSize, 0)+setting(http2.MaxFrameSize, 1<<20),
		func(p *fakeServer) {
			p.await(http2.Headers)
			p.await(http2.Headers)
			p.send(http2.WindowUpdate, 0, 0, uint32s(1<<20))
			for range 10 {
				p.send(http2.WindowUpdate, 0, 1, uint32s(1))
				if f, _ := p.await(http2.Data); f.Stream != 1 || f.Length != 1 {
					t.Error(f)
				}
			}
			p.send(http2.SettingsFrame, 0, 0, setting(http2.InitialWindowSize, size))
			left := map[uint32]int{1: size - 10, 3: size}
			for len(left) > 0 {
				f, _ := p.await(http2.Data)
				if f.Type == 0xff {
					t.Error(left)
					return
				}
				if left[f.Stream] -= int(f.Length); left[f.Stream] == 0 {
					if f.Flags&end == 0 {
						t.Error("the end comes later: ", f.Header)
					}
					delete(left, f.Stream)
					p.send(http2.Headers, endHeaders, f.Stream, ok)
					p.send(http2.Data, end, f.Stream, "hello")
				}
			}
			p.drain()
		})
	body := strings.Repeat("x", size)
	a := s.start("POST", body)
	b := s.start("POST", body)
	for _, c := range []<-chan got{a, b} {
		if g := <-c; g.body != "hello" || g.err != nil {
			t.Error(g)
		}
	}
}

// TestStopped: a stream whose reader does not read gets as much as its window holds, and the others
// go on.
func TestStopped(t *testing.T) {
	t.Parallel()
	ls := run(t)
	full, goOn := make(chan bool), make(chan bool)
	s := dial(t, ls, "", func(p *fakeServer) {
		p.await(http2.Headers)
		p.send(http2.Headers, endHeaders, 1, ok)
		for range 4 { // 64 KiB
			p.send(http2.Data, 0, 1, strings.Repeat("x", 16<<10))
		}
		p.await(http2.Headers)
		p.send(http2.Headers, endHeaders, 3, ok)
		p.send(http2.Data, end, 3, "hello")
		full <- true
		if f, _ := p.await(http2.WindowUpdate); f.Stream != 1 || http2.Uint32(f.payload) < 32<<10 {
			t.Error(f)
		}
		p.send(http2.Data, end, 1, strings.Repeat("x", 16<<10))
		p.drain()
	})
	var slow got
	ended := make(chan bool)
	ls.Go(0, func(th *loop.Thread) {
		st, _ := s.Stream(th, liveness)
		defer st.Close()
		defer close(ended)
		st.Open([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), true, 1<<10, false)
		_ = th.Await(wait.Patience, func(context.Context) error { <-goOn; return nil })
		buf := make([]byte, 32<<10)
		st.NextHead()
		for {
			n, err := st.Read(buf)
			slow.body += string(buf[:n])
			if err == stream.ErrWouldBlock {
				err = st.Await(wait.Patience)
			}
			if slow.err = err; err != nil {
				return
			}
		}
	})
	if g := s.get(); g.body != "hello" {
		t.Error(g)
	}
	<-full
	close(goOn)
	if <-ended; len(slow.body) != 80<<10 {
		t.Error(len(slow.body), slow.err)
	}
}

// TestOverflow: a server that sends more than it may loses the stream; on streams that are closed
// it loses the connection.
func TestOverflow(t *testing.T) {
	t.Parallel()
	seen := make(chan bool)
	s := dial(t, run(t), "", func(p *fakeServer) {
		defer close(seen)
		p.await(http2.Headers)
		p.await(http2.Headers)
		p.send(http2.Headers, endHeaders, 1, ok)
		p.send(http2.Headers, endHeaders, 3, ok)
		p.send(http2.Data, end, 3, "hello")
		p.send(http2.Data, 0, 3, "x")
		f, _ := p.await(http2.GoAway)
		// A reset of the connection, whose input may not be read by then, can take it away.
		if f.Type == http2.GoAway && http2.Code(http2.Uint32(f.payload[4:])) != http2.StreamClosed {
			t.Error(f)
		}
	})
	a, b := s.start("GET", ""), s.start("GET", "")
	if g := <-b; g.body != "hello" {
		t.Error(g)
	}
	if g := <-a; !errors.Is(g.err, http2.StreamClosed) {
		t.Error(g)
	}
	<-seen
}
