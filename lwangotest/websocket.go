package lwangotest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// WebSocket is a client's end of a WebSocket. Its methods are for the goroutine of the test, and
// fail the test with what has come instead of what they wait for. It answers pings all the time,
// and closes from the server.
type WebSocket struct {
	// Patience is how long the methods wait; 10 s. The test may change it at any time.
	Patience time.Duration

	// Response is the answer to the request, with the chosen subprotocol in its header.
	Response *http.Response

	t        testing.TB
	conn     *websocket.Conn
	messages inbox[message]
	done     chan struct{}
}

// message is one that the server has sent, or why there are no more.
type message struct {
	kind int
	data []byte
	err  error
}

func (m message) end() error { return m.err }

// WebSocket connects to a path until the test ends. The fields are as for Do, such as
// "Sec-WebSocket-Protocol: chat" or "Origin: https://example.org". It fails the test if the server
// refuses; a test of that is one of Do:
//
//	a := s.Get("/chat", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
//		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Origin: https://elsewhere.test")
func (s *Server) WebSocket(path string, fields ...string) *WebSocket {
	s.t.Helper()
	d := websocket.Dialer{NetDialContext: s.dial, TLSClientConfig: s.tls}
	return s.webSocket(d, path, fields, "")
}

// WebSocketHTTP2 is WebSocket on a stream of HTTP/2, as browsers have it (RFC 8441). The server
// must speak HTTP/2: it is one of StartServer, with HTTP2 or with TLS.
func (s *Server) WebSocketHTTP2(path string, fields ...string) *WebSocket {
	s.t.Helper()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := s.dial(ctx, network, address)
		if err == nil && s.tls != nil {
			cfg := s.tls.Clone()
			cfg.ServerName, _, _ = net.SplitHostPort(address)
			cfg.NextProtos = []string{"h2"}
			c = tls.Client(c, cfg)
		}
		if err == nil {
			c = server.Over2(s.t, c)
		}
		return c, err
	}
	d := websocket.Dialer{NetDialContext: dial, NetDialTLSContext: dial}
	const hint = "; the server must speak HTTP/2: StartServer with HTTP2 or TLS"
	return s.webSocket(d, path, fields, hint)
}

// webSocket connects by d. hint is added to an error that is no answer.
func (s *Server) webSocket(
	d websocket.Dialer, path string, fields []string, hint string,
) *WebSocket {
	s.t.Helper()
	d.HandshakeTimeout = wait.Patience
	c, resp, err := d.Dial("ws"+strings.TrimPrefix(s.URL, "http")+path, header(s.t, fields))
	if errors.Is(err, websocket.ErrBadHandshake) {
		body, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("WebSocket %s: %s: %s", path, resp.Status, server.Clip(string(body)))
	}
	if err != nil {
		s.t.Fatalf("WebSocket %s: %v%s", path, err, hint)
	}
	w := &WebSocket{Patience: patience, Response: resp, t: s.t, conn: c,
		messages: newInbox(s.t, message{err: errClosed}), done: make(chan struct{})}
	go w.read()
	s.t.Cleanup(func() {
		close(w.done)
		c.Close()
		for range w.messages.come { // until read has returned
		}
	})
	return w
}

// read passes on what the server sends. A test that takes nothing holds it up, as a slow client.
func (w *WebSocket) read() {
	defer close(w.messages.come)
	for {
		var m message
		m.kind, m.data, m.err = w.conn.ReadMessage()
		select {
		case w.messages.come <- m:
		case <-w.done:
			return
		}
		if m.err != nil {
			return
		}
	}
}

// String describes m for a message of the test.
func (m message) String() string {
	text := server.Clip(string(m.data))
	closed, ok := errors.AsType[*websocket.CloseError](m.err)
	switch {
	case ok && closed.Code != websocket.CloseAbnormalClosure:
		return fmt.Sprintf("a close with %d %q", closed.Code, closed.Text)
	case m.err != nil:
		return fmt.Sprintf("the end of the connection without a close (%v)", m.err)
	case m.kind == websocket.BinaryMessage:
		return fmt.Sprintf("the binary message %q", text)
	}
	return fmt.Sprintf("the message %q", text)
}

// Send sends a text message.
func (w *WebSocket) Send(text string) {
	w.t.Helper()
	w.send(websocket.TextMessage, []byte(text))
}

// SendBinary sends a binary message.
func (w *WebSocket) SendBinary(data []byte) {
	w.t.Helper()
	w.send(websocket.BinaryMessage, data)
}

func (w *WebSocket) send(kind int, data []byte) {
	w.t.Helper()
	_ = w.conn.SetWriteDeadline(time.Now().Add(w.Patience))
	if err := w.conn.WriteMessage(kind, data); err != nil {
		w.t.Fatalf("cannot send %s: %v", message{kind: kind, data: data}, err)
	}
}

// Next returns the next message, of either kind. The test fails if none comes.
func (w *WebSocket) Next() string {
	w.t.Helper()
	m := w.messages.next(w.Patience, "a message")
	if m.err != nil {
		w.t.Fatalf("got %s, want a message", m)
	}
	return string(m.data)
}

// Expect takes the next messages. They must be these texts.
func (w *WebSocket) Expect(texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		w.expect(message{kind: websocket.TextMessage, data: []byte(text)})
	}
}

// ExpectBinary takes the next message. It must be a binary one with this data.
func (w *WebSocket) ExpectBinary(data []byte) {
	w.t.Helper()
	w.expect(message{kind: websocket.BinaryMessage, data: data})
}

func (w *WebSocket) expect(want message) {
	w.t.Helper()
	m := w.messages.next(w.Patience, want.String())
	if m.err != nil || m.kind != want.kind || string(m.data) != string(want.data) {
		w.t.Fatalf("got %s, want %s", m, want)
	}
}

// ExpectClose waits for the server's close, which must be next and have this code, and returns its
// reason. 1006 stands for a connection that ends without a close (RFC 6455 section 7.4.1), and
// 1005 for a close without a code.
func (w *WebSocket) ExpectClose(code int) (reason string) {
	w.t.Helper()
	want := fmt.Sprintf("a close with %d", code)
	m := w.messages.next(w.Patience, want)
	closed, ok := errors.AsType[*websocket.CloseError](m.err)
	switch {
	case ok && closed.Code == code:
		return closed.Text
	case m.err != nil && !ok && code == websocket.CloseAbnormalClosure:
		return ""
	}
	w.t.Fatalf("got %s, want %s", m, want)
	return ""
}

// Close closes with 1000 and waits for the server's close, which must have the same code. Messages
// that come before it are dropped.
func (w *WebSocket) Close() {
	w.t.Helper()
	text := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	err := w.conn.WriteControl(websocket.CloseMessage, text, time.Now().Add(w.Patience))
	if err != nil {
		w.t.Fatalf("cannot close: %v", err)
	}
	m := w.messages.next(w.Patience, "a close")
	for m.err == nil {
		m = w.messages.next(w.Patience, "a close")
	}
	if !websocket.IsCloseError(m.err, websocket.CloseNormalClosure) {
		w.t.Fatalf("got %s, want a close with 1000", m)
	}
	w.conn.Close()
}
