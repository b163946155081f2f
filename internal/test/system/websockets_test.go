package system_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
)

// seated is the variable that makes the test's binary the program seats.
const seated = "LWANGO_SEATED"

// seats is a program whose WebSockets and event streams are all in one room. Each is told at first
// which process it has come to. What a WebSocket sends is published.
func seats() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	room := lwango.Topics().Topic("room")
	upgrader := &websocket.Upgrader{Compression: true}
	lwango.Handle("/socket", func(req *lwango.Request, resp *lwango.Response) int {
		return upgrader.Serve(req, resp, seat{room})
	})
	lwango.Handle("/stream", func(req *lwango.Request, resp *lwango.Response) int {
		return sse.Serve(req, resp, stand{room})
	})
	os.Exit(lwango.Run(context.Background(), ""))
}

// inRoom are the options of all that are in the room: the loop of some may be late.
var inRoom = pubsub.Options{Queue: 4096, Policy: pubsub.Disconnect}

// seat is a WebSocket in the room.
type seat struct{ room *pubsub.Topic }

func (s seat) Open(c *websocket.Conn) {
	c.Relay(s.room, inRoom, framed)
	_ = c.WriteMessage(websocket.Text, strconv.AppendInt(nil, int64(os.Getpid()), 10))
}

func (s seat) Message(_ *websocket.Conn, _ int, p []byte)    { s.room.Publish(p) }
func (s seat) Closed(*websocket.Conn, *websocket.CloseError) {}

var framed = pubsub.Shared(func(p []byte) *websocket.PreparedMessage {
	m, _ := websocket.Prepare(websocket.Text, p)
	return m
})

// stand is an event stream in the room.
type stand struct{ room *pubsub.Topic }

func (s stand) Open(to *sse.Stream) {
	to.Subscribe(s.room, inRoom, func(to *sse.Stream, m *pubsub.Message) {
		if m == nil {
			to.Close() // it has missed something
			return
		}
		_ = to.Send(sse.Event{Data: m.Data})
	})
	_ = to.Send(sse.Event{Data: strconv.AppendInt(nil, int64(os.Getpid()), 10)})
}

func (stand) Closed(*sse.Stream, error) {}

// hall is a server of seats, and its clients.
type hall struct {
	*program.Server
	t         *testing.T
	file      string
	config    string
	addresses map[string]string // by the ways to reach it
	asks      map[string]*http.Client

	clients sync.WaitGroup
	all     []*guest
}

// ways are those to reach the program. The WebSockets of the last one have connections of their
// own; its streams share them.
var ways = []string{"tcp", "tls", "HTTP/2"}

// openHall starts the program with further lines of configuration.
func openHall(t *testing.T, more string) *hall {
	t.Helper()
	ca := certs.New(t)
	cert, key := ca.Files(ca.Issue(1000*time.Hour, "127.0.0.2"))
	h := &hall{t: t, file: filepath.Join(t.TempDir(), "lwango.conf"), asks: map[string]*http.Client{}}
	h.config = fmt.Sprintf("threads = 2\nmax_connections_per_address = -1\n%s\n"+
		"[[listener]]\naddress = \"127.0.0.1:0\"\n"+
		"[[listener]]\naddress = \"127.0.0.2:0\"\ntls = { cert = %q, key = %q }\n", more, cert, key)
	must.Write(t, h.file, h.config)
	t.Setenv(seated, "1")
	h.Server = program.StartConfigured(t, h.file)
	over := h.Logged(t, `msg=listening address=(127\.0\.0\.2:\S+)`)[1]
	h.addresses = map[string]string{"tcp": h.Logged(t, `msg=listening address=(127\.0\.0\.1:\S+)`)[1],
		"tls": over, "HTTP/2": over}
	h.connect()
	t.Cleanup(func() {
		for _, g := range h.all {
			g.leave()
		}
		h.clients.Wait()
	})
	return h
}

// connect gives the streams that are opened from now on connections of their own.
func (h *hall) connect() {
	for _, way := range ways {
		tr := &http.Transport{TLSClientConfig: h.tls(way), ForceAttemptHTTP2: way == "HTTP/2"}
		if way != "HTTP/2" {
			tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		}
		h.asks[way] = &http.Client{Transport: tr}
		h.t.Cleanup(tr.CloseIdleConnections)
	}
}

func (h *hall) tls(way string) *tls.Config {
	c := &tls.Config{InsecureSkipVerify: true}
	if way == "HTTP/2" {
		c.NextProtos = []string{"h2"}
	}
	return c
}

// guest is a client in the room.
type guest struct {
	way    string
	stream bool
	pid    string             // of the process that it has come to
	say    func(string) error // of a WebSocket
	leave  func()             // any goroutine calls it

	mu    sync.Mutex
	heard []string
	err   error     // with which it has ended
	ended time.Time // zero: not yet
}

// enter brings a guest into the room.
func (h *hall) enter(way string, stream bool) *guest {
	h.t.Helper()
	g := &guest{way: way, stream: stream}
	next := h.socket
	if stream {
		next = h.stream
	}
	hear := next(g)
	g.pid = must.Get(hear())(h.t)
	h.all = append(h.all, g)
	h.clients.Go(func() {
		defer g.leave()
		for {
			text, err := hear()
			g.mu.Lock()
			if err != nil {
				g.err, g.ended = err, time.Now()
				g.mu.Unlock()
				return
			}
			g.heard = append(g.heard, text)
			g.mu.Unlock()
		}
	})
	return g
}

// socket connects a WebSocket.
func (h *hall) socket(g *guest) (hear func() (string, error)) {
	h.t.Helper()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil && g.way != "tcp" {
			c = tls.Client(c, h.tls(g.way))
		}
		if err == nil && g.way == "HTTP/2" {
			c = server.Over2(h.t, c)
		}
		return c, err
	}
	d := gorilla.Dialer{NetDialContext: dial, NetDialTLSContext: dial, HandshakeTimeout: wait.Patience,
		ReadBufferSize: 512, WriteBufferSize: 512}
	c, _, err := d.Dial("ws://"+h.addresses[g.way]+"/socket", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	g.leave = func() { c.Close() }
	g.say = func(text string) error { return c.WriteMessage(gorilla.TextMessage, []byte(text)) }
	return func() (string, error) {
		_, p, err := c.ReadMessage()
		return string(p), err
	}
}

// stream opens an event stream.
func (h *hall) stream(g *guest) (hear func() (string, error)) {
	h.t.Helper()
	scheme := "http://"
	if g.way != "tcp" {
		scheme = "https://"
	}
	ctx, cancel := context.WithCancel(context.Background())
	req := must.Get(http.NewRequestWithContext(ctx, "GET", scheme+h.addresses[g.way]+"/stream", nil))(
		h.t)
	resp := must.Get(h.asks[g.way].Do(req))(h.t)
	if want := g.way == "HTTP/2"; (resp.ProtoMajor == 2) != want {
		h.t.Fatal(resp.Proto)
	}
	g.leave = cancel
	r := bufio.NewReaderSize(resp.Body, 512)
	return func() (string, error) {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				resp.Body.Close()
				return "", err
			}
			if text, ok := strings.CutPrefix(line, "data: "); ok {
				return strings.TrimSuffix(text, "\n"), nil
			}
		}
	}
}

// has returns what the guest has heard.
func (g *guest) has() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ended.IsZero() {
		return -1
	}
	return len(g.heard)
}

// hear waits until all these guests have heard what was said, which each has to have, once and in
// its order.
func (h *hall) hear(all []*guest, said []string) {
	h.t.Helper()
	for _, g := range all {
		wait.Until(h.t, "what was said", func() bool {
			n := g.has()
			return n < 0 || n >= len(said)
		})
		g.mu.Lock()
		if g.err != nil || !slices.Equal(g.heard, said) {
			h.t.Errorf("%s, stream %v: %d of %d messages, %v", g.way, g.stream, len(g.heard), len(said),
				g.err)
		}
		g.mu.Unlock()
	}
	if h.t.Failed() {
		h.t.FailNow()
	}
}

// end waits until all these guests have been told in order that the server goes away, and returns
// when the first and when the last one was.
func (h *hall) end(all []*guest) (first, last time.Time) {
	h.t.Helper()
	for _, g := range all {
		wait.Until(h.t, "the end", func() bool { return g.has() < 0 })
		if told := gorilla.IsCloseError(g.err, gorilla.CloseGoingAway); told == g.stream ||
			g.stream && g.err != io.EOF {
			h.t.Errorf("%s, stream %v: ended with %v", g.way, g.stream, g.err)
		}
		if first.IsZero() || g.ended.Before(first) {
			first = g.ended
		}
		if g.ended.After(last) {
			last = g.ended
		}
	}
	return first, last
}
