package http2client_test

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream/http2client"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// FuzzSession: whatever a server sends behind its preface and then ends, all requests end, an
// upload as well as the others, and no more comes of an answer than was sent.
func FuzzSession(f *testing.F) {
	all := func(frames ...[]byte) (b []byte) {
		for _, f := range frames {
			b = append(b, f...)
		}
		return b
	}
	head, last := raw(http2.Headers, endHeaders, 1, ok), raw(http2.Data, end, 1, "hello")
	f.Add(all(head, last, raw(http2.Headers, endHeaders, 3, ok+block("content-length", "5")),
		raw(http2.Data, end, 3, "hello")))
	f.Add(all(raw(http2.Headers, endHeaders, 1, block(":status", "103")), raw(http2.Headers, 0, 1, ok),
		raw(http2.Continuation, endHeaders, 1, block("a", "b")),
		raw(http2.Data, http2.Padded, 1, "\x02hello.."),
		raw(http2.Headers, end|endHeaders, 1, block("a", "b"))))
	f.Add(all(raw(http2.RSTStream, 0, 1, uint32s(7)), raw(http2.GoAway, 0, 0, uint32s(1, 0)),
		raw(http2.Data, 0, 1, "x")))
	f.Add(all(raw(http2.WindowUpdate, 0, 3, uint32s(1)), raw(http2.WindowUpdate, 0, 0, uint32s(1<<20)),
		raw(http2.SettingsFrame, 0, 0,
			setting(http2.InitialWindowSize, 1<<20)+setting(http2.MaxConcurrentStreams, 1)),
		raw(http2.Ping, 0, 0, "12345678"), raw(http2.Priority, 0, 1, "12345"),
		raw(http2.PushPromise, 0, 1, "1234")))
	f.Fuzz(func(t *testing.T, frames []byte) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
			0)
		if err != nil {
			t.Fatal(err)
		}
		l := must.Get(loop.New(loop.Options{}))(t)
		file := os.NewFile(uintptr(fds[1]), "server")
		server, err := net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		_ = server.SetDeadline(time.Now().Add(wait.Patience))
		var answers [3]got
		ended, over := 0, 0
		s, err := http2client.Start(l, fds[0], nil, nil, liveness, func(*http2client.Session) { over++ })
		if err != nil {
			t.Fatal(err)
		}
		for i := range answers {
			l.Go(func(th *loop.Thread) {
				defer func() { ended++ }()
				if s.AwaitSettings(th, wait.Patience) != nil || !s.Room() {
					return
				}
				st, _ := s.Stream(th, liveness)
				defer st.Close()
				answers[i] = ask(st, "POST", strings.Repeat("x", i*100_000))
			})
		}
		done := make(chan bool)
		go func() {
			defer close(done)
			_, _ = server.Write(append(raw(http2.SettingsFrame, 0, 0, ""), frames...))
			_ = server.(*net.UnixConn).CloseWrite()
			_, _ = io.Copy(io.Discard, server)
		}()
		must.Do(t, l.Run()) // until all threads have ended
		<-done
		if ended != len(answers) || over != 1 {
			t.Errorf("%d requests have ended; the session has ended %d times", ended, over)
		}
		total := 0
		for _, g := range answers {
			total += len(g.body)
			if g.status != 0 && (g.status < 100 || g.status == 101) {
				t.Error(g)
			}
		}
		if total > len(frames) {
			t.Errorf("%d bytes of content in %d of frames", total, len(frames))
		}
	})
}
