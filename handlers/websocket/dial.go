package websocket

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/tls/handshake"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Dialer connects to servers. The zero value is ready for use. All loops may use one Dialer, which
// must not change then. Fields that an Upgrader has, too, mean the same for this end: Takeover is
// about messages to the server, and PeerTakeover about those from it.
type Dialer struct {
	Header       http.Header // further fields of the request; Host replaces the host of the URL
	Subprotocols []string    // that the client speaks, the best first

	// TLS is how to speak TLS with servers of wss; nil: with the system's authorities. Its functions
	// are called on another goroutine than the loop's, and may wait.
	TLS *tls.Config

	// Net makes the connections; nil: a zero stream.Dialer. Its Timeout applies besides Dial's limit.
	Net *stream.Dialer

	Compression, Takeover, PeerTakeover    bool
	CompressionLevel, CompressionThreshold int

	ReadLimit                    int64
	MessageTimeout, WriteTimeout time.Duration
	PingInterval, IdleTimeout    time.Duration
}

// Dial calls Dial of a zero Dialer.
func Dial(t *loop.Thread, limit time.Duration, url string) (*Conn, http.Header, error) {
	return new(Dialer).Dial(t, limit, url)
}

// maxAnswer is how long the head of a server's answer may be.
const maxAnswer = 64 << 10

// maxInterim is how many interim responses may come before it.
const maxInterim = 10

// Dial connects to the server of a URL, ws or wss, and makes the handshake, all within the limit;
// negative: without limit. t is the calling thread, to which the Conn belongs. The caller closes it
// with Conn.Close. A connection is made to that server and no other: neither through a proxy, nor
// where a redirect points to. The TLS handshake does not block the loop.
//
// It returns the fields of the server's answer, too, if there was one. If the answer is not 101,
// the error is a *HandshakeError with the answer's status. Other errors are those of stream.Dialer,
// of crypto/tls, loop.ErrDeadlineExceeded, and a *loop.PanicError of a function of the tls.Config.
func (d *Dialer) Dial(t *loop.Thread, limit time.Duration, address string) (
	*Conn, http.Header, error,
) {
	c, answer, err := d.dial(t, limit, address)
	if err != nil {
		if _, refused := errors.AsType[*HandshakeError](err); !refused {
			err = fmt.Errorf("websocket: %w", err)
		}
		return nil, answer, err
	}
	return c, answer, nil
}

func (d *Dialer) dial(t *loop.Thread, limit time.Duration, address string) (
	c *Conn, answer http.Header, err error,
) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, nil, err
	case u.Scheme != "ws" && u.Scheme != "wss":
		return nil, nil, fmt.Errorf("scheme of %s is not ws or wss", u.Redacted())
	case u.Host == "" || u.User != nil || u.Fragment != "": // RFC 6455 section 3
		return nil, nil, fmt.Errorf("address %s has no host, or a user or a fragment", u.Redacted())
	}
	var until time.Time
	if limit >= 0 {
		until = time.Now().Add(limit)
	}
	s, over, err := d.connect(t, u, until)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if c == nil { // also if the thread is killed
			_ = s.Close() // of the stream: close_notify to a server that reads nothing takes seconds
		}
	}()
	var b [16]byte
	_, _ = rand.Read(b[:]) // does not fail
	key := base64.StdEncoding.EncodeToString(b[:])
	head, err := d.request(u, key)
	if err != nil {
		return nil, nil, err
	}
	_ = over.SetDeadline(until)
	if _, err = over.Write(head); err != nil {
		return nil, nil, err
	}
	limited := &io.LimitedReader{R: over, N: maxAnswer}
	r := bufio.NewReaderSize(limited, bufferSize)
	get := &http.Request{Method: http.MethodGet}
	resp, err := http.ReadResponse(r, get)
	for n := 0; n < maxInterim && err == nil && resp.StatusCode/100 == 1 &&
		resp.StatusCode != http.StatusSwitchingProtocols; n++ {
		resp, err = http.ReadResponse(r, get)
	}
	if err != nil {
		if limited.N <= 0 {
			err = fmt.Errorf("the head of the answer is longer than %d bytes", maxAnswer)
		}
		return nil, nil, err
	}
	o, err := d.agree(resp, key)
	if err != nil {
		return nil, resp.Header, err
	}
	_ = over.SetDeadline(time.Time{})
	secure, _ := over.(*tls.Conn)
	c = &Conn{activeState: &activeState{link: s, tls: secure}, thread: t, set: d.settings(),
		expected:      expected{deflate: o.deflate, server: true},
		writeTakeover: o.writeTakeover, readTakeover: o.readTakeover}
	if c.readTakeover > 0 { // as the server has decided
		readWindowBytes.Add(1 << c.readTakeover)
	}
	s.SetNoWait(true)
	c.lastInput = c.now()
	c.agreeOn(o.protocol)
	if r.Buffered() > 0 {
		c.ensureExtra().early = r
	}
	return c, resp.Header, nil
}

// connect makes the connection, and TLS on it.
func (d *Dialer) connect(t *loop.Thread, u *url.URL, until time.Time) (
	s *stream.Conn, over net.Conn, err error,
) {
	secure := u.Scheme == "wss"
	left := time.Duration(-1)
	if !until.IsZero() {
		left = time.Until(until)
	}
	if left == 0 || !until.IsZero() && left < 0 {
		return nil, nil, loop.ErrDeadlineExceeded
	}
	if secure && (d.TLS == nil || d.TLS.RootCAs == nil && !d.TLS.InsecureSkipVerify) {
		// reads the disk, once
		load := func(context.Context) error { _, _ = x509.SystemCertPool(); return nil }
		if err := t.Await(left, load); err != nil {
			return nil, nil, err
		}
	}
	port := u.Port()
	if port == "" {
		port = "80"
		if secure {
			port = "443"
		}
	}
	var dialer stream.Dialer
	if d.Net != nil {
		dialer = *d.Net
	}
	if !until.IsZero() {
		left = max(time.Until(until), 1)
		if dialer.Timeout == 0 || left < dialer.Timeout {
			dialer.Timeout = left
		}
	}
	made, err := dialer.Dial(t, "tcp", net.JoinHostPort(u.Hostname(), port))
	switch {
	case err != nil:
		return nil, nil, err
	case !secure:
		return made, made, nil
	}
	defer func() {
		if over == nil { // also if the thread is killed
			_ = made.Close()
		}
	}()
	config := new(tls.Config)
	if d.TLS != nil {
		config = d.TLS.Clone()
	}
	if config.ServerName == "" {
		config.ServerName = u.Hostname()
	}
	config.NextProtos = []string{"http/1.1"}
	below := new(struct{ net.Conn })
	c := tls.Client(below, config)
	_ = made.SetDeadline(until)
	if until.IsZero() {
		until = t.Loop().Time().Add(noLimit)
	}
	if _, err := handshake.Dial(t, server(made), c, &below.Conn, made, until); err != nil {
		return nil, nil, fmt.Errorf("tls handshake: %w", err)
	}
	below.Conn = made
	return made, c, nil
}

// noLimit is longer than any handshake.
const noLimit = 365 * 24 * time.Hour

// server returns the address of the server.
func server(s *stream.Conn) netip.Addr {
	at, _ := netip.ParseAddrPort(s.RemoteAddr().String())
	return at.Addr().Unmap()
}

// request returns the client's part of the handshake (RFC 6455 section 4.1).
func (d *Dialer) request(u *url.URL, key string) ([]byte, error) {
	host := u.Host
	for name, values := range d.Header {
		switch {
		case ascii.EqualFold(name, "Host") && len(values) == 1:
			host = values[0]
		case reserved(name) || ascii.EqualFold(name, "Host") || !http1.ValidToken(name) ||
			!allValid(values):
			return nil, fmt.Errorf("a request cannot have the field %q", name)
		}
	}
	if !http1.ValidFieldValue(host) {
		return nil, fmt.Errorf("bad host %q", host)
	}
	b := append(append(make([]byte, 0, 512), "GET "...), u.RequestURI()...)
	b = append(b, " HTTP/1.1\r\n"...)
	b = appendField(b, "Host", host)
	b = append(b, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"...)
	b = appendField(b, "Sec-WebSocket-Key", key)
	if len(d.Subprotocols) > 0 {
		for _, p := range d.Subprotocols {
			if !http1.ValidToken(p) {
				return nil, fmt.Errorf("subprotocol %q is not a token", p)
			}
		}
		b = appendField(b, "Sec-WebSocket-Protocol", strings.Join(d.Subprotocols, ", "))
	}
	if d.Compression {
		offer := deflate
		if !d.PeerTakeover || readWindowBytes.Load() >= maxReadWindows {
			offer += "; " + serverNoTakeover
		}
		if !d.Takeover {
			offer += "; " + clientNoTakeover
		}
		b = appendField(b, "Sec-WebSocket-Extensions", offer)
	}
	for name, values := range d.Header {
		for _, v := range values {
			if !ascii.EqualFold(name, "Host") {
				b = appendField(b, name, v)
			}
		}
	}
	return append(b, "\r\n"...), nil
}

// reserved reports whether a field belongs to the handshake or to the request's framing.
func reserved(name string) bool {
	return ascii.EqualFold(name, "Connection") || ascii.EqualFold(name, "Upgrade") ||
		ascii.EqualFold(name, "Content-Length") || ascii.EqualFold(name, "Transfer-Encoding") ||
		len(name) >= len(ours) && ascii.EqualFold(name[:len(ours)], ours)
}

func allValid(values []string) bool {
	return !slices.ContainsFunc(values, func(v string) bool { return !http1.ValidFieldValue(v) })
}

// agree checks the server's answer, and returns what it agrees to (RFC 6455 section 4.1).
func (d *Dialer) agree(resp *http.Response, key string) (a agreed, err error) {
	h := resp.Header
	refuse := func(format string, args ...any) (agreed, error) {
		return a, &HandshakeError{resp.StatusCode, fmt.Sprintf(format, args...)}
	}
	switch to := h.Get("Location"); {
	case resp.StatusCode/100 == 3 && to != "":
		return refuse("server answers %s and points to %s, which Dial does not follow", resp.Status, to)
	case resp.StatusCode != http.StatusSwitchingProtocols:
		return refuse("server answers %s", resp.Status)
	case !hasToken(h.Values("Upgrade"), "websocket"), !hasToken(h.Values("Connection"), "upgrade"):
		return refuse("server switches to something else")
	case !slices.Equal(h.Values("Sec-WebSocket-Accept"), []string{acceptKey(key)}):
		return refuse("Sec-WebSocket-Accept does not fit the request")
	}
	switch protocols := h.Values("Sec-WebSocket-Protocol"); {
	case len(protocols) == 0:
	case len(protocols) > 1 || !slices.Contains(d.Subprotocols, protocols[0]):
		return refuse("server chooses the subprotocols %q, which were not offered", protocols)
	default:
		a.protocol = protocols[0]
	}
	extensions, ok := parseOffers(h.Values("Sec-WebSocket-Extensions"))
	switch {
	case len(extensions) == 0 && ok:
		return a, nil
	case !ok || len(extensions) > 1 || !d.Compression || !extensions[0].agreeable():
		return refuse("server chooses extensions that were not offered: %q",
			h.Values("Sec-WebSocket-Extensions"))
	}
	o := extensions[0]
	a.deflate, a.writeTakeover = true, d.Takeover && !o.has(clientNoTakeover)
	if !o.has(serverNoTakeover) {
		// A server that was asked for server_no_context_takeover has to confirm it. Without that, it may
		// refer to earlier messages.
		a.readTakeover = o.window(serverWindow)
	}
	return a, nil
}

// agreeable reports whether a server's answer to an offer is valid. The answer cannot limit this
// end's window, since the offer has not allowed that (RFC 7692 section 7.1.2.2).
func (o offer) agreeable() bool {
	if o.has(clientWindow) {
		return false
	}
	for i, p := range o.params {
		if p.name == serverWindow { // any will do for an inflater
			o.params = slices.Clone(o.params)
			if !slices.Contains(windowBits, p.value) {
				return false
			}
			o.params[i].value = largestWindow
		}
	}
	return o.acceptable()
}

// settings returns an Upgrader with the Dialer's fields.
func (d *Dialer) settings() *Upgrader {
	return &Upgrader{
		Subprotocols:     d.Subprotocols,
		CompressionLevel: d.CompressionLevel, CompressionThreshold: d.CompressionThreshold,
		ReadLimit: d.ReadLimit, MessageTimeout: d.MessageTimeout, WriteTimeout: d.WriteTimeout,
		PingInterval: d.PingInterval, IdleTimeout: d.IdleTimeout,
	}
}
