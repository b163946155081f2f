package http2client_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream/http2client"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// fakeServer is the server's end of a connection.
type fakeServer struct {
	net.Conn
	dec http2.Decoder
}

// frame is one that has come.
type frame struct {
	http2.Header
	payload []byte
}

func (f frame) String() string { return fmt.Sprintf("%+v %q", f.Header, f.payload) }

// next returns the next frame, one without a type at the end of the connection.
func (p *fakeServer) next() frame {
	var head [http2.FrameHeaderLen]byte
	none := frame{Header: http2.Header{Type: 0xff}}
	if _, err := io.ReadFull(p, head[:]); err != nil {
		return none
	}
	f := frame{Header: http2.ParseHeader(head[:])}
	f.payload = make([]byte, f.Length)
	if _, err := io.ReadFull(p, f.payload); err != nil {
		return none
	}
	return f
}

// await returns the next frame of that type, and the fields of it.
func (p *fakeServer) await(want http2.Type) (f frame, fields string) {
	for f = p.next(); f.Type != want && f.Type != 0xff; f = p.next() {
		if f.Type == http2.Headers {
			_ = p.dec.Decode(f.payload, new(http2.Fields))
		}
	}
	if f.Type == http2.Headers {
		var list http2.Fields
		list.Reset(1 << 20)
		_ = p.dec.Decode(f.payload, &list)
		fields = string(list.Buf)
	}
	return f, fields
}

// send sends a frame.
func (p *fakeServer) send(t http2.Type, flags uint8, id uint32, payload string) {
	_, _ = p.Write(raw(t, flags, id, payload))
}

func raw(t http2.Type, flags uint8, id uint32, payload string) []byte {
	return append(http2.AppendHeader(nil, t, flags, id, len(payload)), payload...)
}

// block encodes fields, pairs of names and values.
func block(fields ...string) string {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		b = append(b, 0, byte(len(fields[i])))
		b = append(append(b, fields[i]...), byte(len(fields[i+1])))
		b = append(b, fields[i+1]...)
	}
	return string(b)
}

var ok = block(":status", "200")

const (
	end        = http2.EndStream
	endHeaders = http2.EndHeaders
)

// dial begins a session with a server that follows script, after the prefaces. Its settings are
// those given.
func dial(t *testing.T, ls *loops.Loops, settings string, script func(*fakeServer)) *session {
	t.Helper()
	ready := make(chan bool)
	s := dialRaw(t, ls, func(p *fakeServer) {
		preface := make([]byte, len(http2.Preface))
		_, _ = io.ReadFull(p, preface)
		p.send(http2.SettingsFrame, 0, 0, settings)
		for f, _ := p.await(http2.SettingsFrame); f.Flags&http2.Ack == 0; f, _ = p.await(
			http2.SettingsFrame) {
		}
		close(ready)
		script(p)
	})
	<-ready
	return s
}

// session is one, and its loop.
type session struct {
	*http2client.Session
	ls    *loops.Loops
	ended chan bool // closed when it takes no more streams
}

// dialRaw is dial without the prefaces.
func dialRaw(t testing.TB, ls *loops.Loops, script func(*fakeServer)) *session {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var running sync.WaitGroup
	accepted := make(chan net.Conn, 1)
	running.Go(func() {
		defer close(accepted)
		c, err := ln.Accept()
		ln.Close()
		if err != nil {
			t.Error(err)
			return
		}
		accepted <- c
		_ = c.SetDeadline(time.Now().Add(wait.Patience))
		script(&fakeServer{Conn: c})
		c.Close()
	})
	t.Cleanup(func() {
		if c := <-accepted; c != nil {
			c.Close()
		}
		running.Wait()
	})
	s := &session{ls: ls, ended: make(chan bool)}
	done := make(chan error, 1)
	ls.Go(0, func(th *loop.Thread) {
		over, err := stream.Dial(th, wait.Patience, "tcp", ln.Addr().String())
		if err == nil {
			var fd int
			fd, _ = over.Release()
			s.Session, err = http2client.Start(th.Loop(), fd, nil, nil, liveness,
				func(*http2client.Session) { close(s.ended) })
		}
		done <- err
	})
	must.Do(t, <-done)
	return s
}

// liveness keeps connections for long.
var liveness = http2client.Lifetime{Idle: time.Hour}

// got is what has come of a request.
type got struct {
	interim int
	status  int
	body    string
	trailer string
	err     error
}

func (g got) String() string {
	body := g.body
	if len(body) > 20 {
		body = fmt.Sprint(len(body), " bytes")
	}
	return fmt.Sprintf("%d+%d %q %q %v", g.interim, g.status, body, g.trailer, g.err)
}

// start sends a request; its result comes later.
func (s *session) start(method, body string) <-chan got {
	done := make(chan got, 1)
	s.ls.Go(0, func(th *loop.Thread) {
		if !s.Room() {
			done <- got{err: errors.New("no room")}
			return
		}
		st, _ := s.Stream(th, liveness)
		defer st.Close()
		done <- ask(st, method, body)
	})
	return done
}

// ask sends a request on a stream.
func ask(st *http2client.Stream, method, body string) (g got) {
	st.Open([]byte(method+" /a HTTP/1.1\r\nHost: b\r\nX-A: c\r\nConnection: close\r\n\r\n"),
		body == "", 1<<10, method == "HEAD")
	buf := make([]byte, 4<<10)
	for {
		if len(body) > 0 && st.Held() == 0 {
			n := min(len(body), 10_000)
			if st.Write([]byte(body[:n])) != nil {
				body = ""
			} else if body = body[n:]; body == "" {
				st.End(nil)
			}
			continue
		}
		if h := st.Head(); h != nil {
			if g.status = h.Status; h.Status < 200 {
				g.interim++
			}
			st.NextHead()
			continue
		}
		n, err := st.Read(buf)
		g.body += string(buf[:n])
		switch err {
		case nil:
			continue
		case stream.ErrWouldBlock:
			if err = st.Await(5 * time.Minute); err == nil { // a test may skip time
				continue
			}
		case io.EOF:
			st.Trailer(func(name, value []byte) { g.trailer += string(name) + ":" + string(value) + ";" })
			return g
		}
		g.err = err
		return g
	}
}

func (s *session) get() got { return <-s.start("GET", "") }

func run(t *testing.T) *loops.Loops {
	t.Helper()
	return loops.Start(t, modes.Direct, nil, nil)
}

// answers answers every request that comes.
func answers(p *fakeServer) {
	for {
		f, _ := p.await(http2.Headers)
		if f.Type == 0xff {
			return
		}
		p.send(http2.Headers, endHeaders, f.Stream, ok)
		p.send(http2.Data, end, f.Stream, "hello")
	}
}

// drain reads until the end of the connection.
func (p *fakeServer) drain() { _, _ = io.Copy(io.Discard, p) }

// setting is an entry of a SETTINGS frame.
func setting(s http2.Setting, value uint32) string {
	return string(http2.AppendSetting(nil, s, value))
}

// uint32s are the octets of numbers.
func uint32s(all ...uint32) string {
	var b strings.Builder
	for _, n := range all {
		b.Write(http2.AppendUint32(nil, n))
	}
	return b.String()
}
