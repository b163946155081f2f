package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/upstream/httpclient"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
)

// Errors of a Client. A timeout wraps loop.ErrDeadlineExceeded, and ErrConnect, too, if there was
// no connection yet.
var (
	// Errors wrap ErrCut if the connection has ended, or failed, before the answer.
	ErrCut = upstream.ErrCut
	// ErrHeadSize says that the head of an answer is longer than 64 KiB.
	ErrHeadSize = httpclient.ErrHeadSize
	// ErrInterim says that the server sends one interim response after another.
	ErrInterim = httpclient.ErrInterim
	// Errors wrap ErrConnect if no byte of the request was sent: the name does not resolve, no server
	// listens, its certificate is not valid.
	ErrConnect = errors.New("no connection")
	// Errors wrap ErrProtocol if the answer is malformed.
	ErrProtocol = errors.New("malformed answer")
	// ErrTooLarge is the error of a body that is longer than Request.MaxBody.
	ErrTooLarge = errors.New("the body is too large")
)

const (
	// maxBody is Request.MaxBody where that is 0.
	maxBody = 16 << 20
	// connectTimeout is for how long a connection may take, where the request has that long.
	connectTimeout = 10 * time.Second
	// maxIdle is how many idle connections to a server stay, and idleTimeout for how long: many
	// servers close theirs after five seconds. Most handlers that send a hundred requests to a server
	// at once will do so again, and to connect costs several times as much as a request. Requests take
	// the connection that was used last, so after three seconds no more connections stay than requests
	// were under way at one time.
	maxIdle     = 256
	idleTimeout = 3 * time.Second
	// maxAge is how long a connection is used: a new server behind a load balancer gets no requests of
	// older connections.
	maxAge = time.Hour
	// forever is a limit of time that nothing reaches, with room to add to it.
	forever = time.Duration(math.MaxInt64 / 2)
	// maxOrigins is how many servers a Client remembers. Handlers may take addresses from requests.
	maxOrigins = 256
)

// Client sends requests to servers of any name, over TLS if the address says https, and keeps the
// connections between requests, for all loops. The zero value is ready for use. Any thread may call
// its methods; the fields must not change then.
type Client struct {
	// TLS is how to speak TLS; nil: with the system's authorities. ServerName and
	// ClientSessionCache are ignored. Its functions are called on a goroutine, not on the loop.
	TLS *tls.Config

	// HTTP2 enables HTTP/2: over TLS for servers that choose it by ALPN (others get HTTP/1.1), and in
	// clear text for all, by prior knowledge; there a server of HTTP/1.1 alone is an ErrConnect or an
	// ErrProtocol. The requests of a loop share connections, and a loop that waits for its threads to
	// end waits for idle connections, too: three seconds.
	HTTP2 bool

	rootsLoaded atomic.Bool // the system's authorities are loaded

	mu      sync.Mutex
	pool    *upstream.Pool
	origins map[origin]*upstream.Group
	open    map[*loop.Thread]*Body // those whose end has not come; see hold
}

// origin is a server: the scheme, and host and port as in the URL.
type origin struct{ scheme, host string }

var standard Client

// Get sends a GET request for url: see Client.Do.
func Get(t *loop.Thread, limit time.Duration, url string) (*Response, error) {
	return standard.Get(t, limit, url)
}

// Do sends a request: see Client.Do.
func Do(t *loop.Thread, limit time.Duration, r *Request) (*Response, error) {
	return standard.Do(t, limit, r)
}

// Request describes a request. It can be used for several requests, unless it has a From.
type Request struct {
	Method string // "": GET
	URL    string // http or https, without a user
	Header conn.Header
	Body   []byte

	// From is the body in place of Body. The asking thread reads it while it sends, in pieces of at
	// most 16 KiB, until the head of the answer has come; what is left then is not sent, and the
	// connection is not kept. An error of Read ends the request and is in Do's error, and so is
	// io.ErrNoProgress if Read returns neither bytes nor an error again and again.
	//
	// Read may wait, as the Body of a conn.Request does; an answer that comes meanwhile is found when
	// it returns. If From has a method AwaitInput() error, as that Body has, it is called before each
	// Read, and the request holds no buffer while it waits.
	//
	// Do's limit does not end a wait of From, but ends the request after it. So From needs a limit of
	// its own; that of a conn.Request's Body is body_timeout and min_rate. (The client sets no
	// deadline of From: on a connection that would take the place of those two.)
	From io.Reader

	// Length is how many bytes From has. Fewer are an error (io.ErrUnexpectedEOF). 0 or less: unknown;
	// then the body is sent in chunks, which servers of HTTP/1.0 do not know.
	Length int64

	// MaxBody is how many bytes the answer's body may have; 0: 16 MiB; negative: no limit.
	MaxBody int64

	// Follow is how many redirects to follow. The last answer is the result. Another server gets no
	// Authorization and no Cookie. With From, a redirect that needs the body again (307, 308) is not
	// followed.
	Follow int

	host string // the Host field; "": that of the URL
}

// Response is an answer. It belongs to the thread that has sent the request.
type Response struct {
	Status int
	Header conn.Header

	// Trailer has the fields behind the body, once Body has returned io.EOF. Servers need send them
	// only if the request has the field TE with "trailers".
	Trailer conn.Header

	// Body is the rest, which may still be on its way. It ends with the thread, or the thread's
	// request. A thread that goes on, and does not read to the end, closes it.
	Body *Body

	body        Body
	multiplexed bool // by HTTP/2
}

// Get sends a GET request for url.
func (c *Client) Get(t *loop.Thread, limit time.Duration, url string) (*Response, error) {
	return c.Do(t, limit, &Request{URL: url})
}

// Do sends a request and waits for the head of the answer, whatever its status; t is the calling
// thread. limit is for the whole exchange, including reads of the body; negative: without limit. It
// does not end a wait of Request.From.
//
// Besides those of this package, the error may be loop.ErrClientGone or loop.ErrCanceled: the
// thread's client has left. Everything is closed then. A request of a method that may be repeated
// is sent a second time if an idle connection has ended without an answer (RFC 9110 section 9.2.2).
func (c *Client) Do(t *loop.Thread, limit time.Duration, r *Request) (*Response, error) {
	if limit < 0 {
		limit = forever
	}
	until := time.Now().Add(limit)
	if by, ok := t.Deadline(); ok && by.Before(until) {
		until = by
	}
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, err
	}
	method, follow, foreign := r.Method, r.Follow, false
	body := bodyContent{bytes: r.Body}
	if r.From != nil {
		body = bodyContent{from: r.From, left: r.Length}
	}
	method = cmp.Or(method, "GET")
	if err := r.check(method); err != nil {
		return nil, err
	}
	for {
		resp, err := c.send(t, r, u, method, body, foreign, until)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", method, u.Redacted(), err)
		}
		to := resp.Header.Get("Location")
		if follow == 0 || to == "" || !redirects(resp.Status) {
			return resp, nil
		}
		next, err := u.Parse(to)
		if err != nil {
			return resp, nil
		}
		if s := resp.Status; s == 303 && method != "HEAD" || s < 303 && method == "POST" {
			method, body = "GET", bodyContent{} // RFC 9110 sections 15.4.2 to 15.4.4
		} else if body.from != nil {
			return resp, nil
		}
		resp.Body.Close()
		foreign = foreign || next.Host != u.Host || next.Scheme != u.Scheme
		u, follow = next, follow-1
	}
}

func redirects(status int) bool {
	return status >= 301 && status <= 303 || status == 307 || status == 308
}

// send sends one request, perhaps twice.
func (c *Client) send(t *loop.Thread, r *Request, u *url.URL, method string, body bodyContent,
	foreign bool, until time.Time) (*Response, error) {
	limit := cmp.Or(r.MaxBody, maxBody)
	if limit < 0 {
		limit = math.MaxInt64
	}
	u.Host = strings.TrimSuffix(u.Host, ":") // an empty port is none (RFC 3986 section 3.2.3)
	g, err := c.group(t, u, until)
	if err != nil {
		return nil, err
	}
	resp := new(Response)
	b := &resp.body
	resp.Body = b
	b.c, b.t, b.until, b.sizeLeft, b.trailer = c, t, until, limit, &resp.Trailer
	b.lease, b.exchange = g.Lease(), exchanges.Get().(*httpclient.Exchange)
	b.exchange.KeepTrailer = true
	done := false
	defer func() { // also when the thread is killed
		if !done {
			b.drop()
		}
	}()
	want := upstream.Reused
	if !http1.Idempotent(method) || body.from != nil {
		want = upstream.JustUsed
	}
	for {
		reused, err := b.connect(want)
		if err != nil {
			return nil, err
		}
		if st := b.lease.Mux(); st != nil {
			resp.multiplexed = true
			b.exchange.BeginMux(st, method)
		} else {
			b.exchange.Begin(b.stream, b.lease.Transport(b.stream), method)
		}
		b.exchange.Bound = !foreign && http1.ForConnection(r.Header.Get("Authorization"))
		if b.buf == nil {
			b.buf = buffers.Get().(*[bufferSize]byte)
		}
		sent := body // a copy, in case it is sent again
		err = b.head(appendHead(b.buf[:0], r, u, method, body, foreign), &sent)
		if err == nil {
			b.lease.NoteSuccess()
			break
		}
		refused := upstream.Refused(err)
		if !reused && !b.exchange.GotFirstByte() && errors.Is(err, ErrCut) && !refused {
			b.lease.NoteFailure()
		}
		again := refused || reused && errors.Is(err, ErrCut) && !b.exchange.GotFirstByte() &&
			http1.Idempotent(method)
		if !again || sent.read || want == upstream.Fresh {
			return nil, err
		}
		b.exchange.End()
		b.lease.Close(b.stream)
		b.stream, want = nil, upstream.Fresh
	}
	h := &b.exchange.Head
	if h.Status == 101 { // it was not asked for
		return nil, fmt.Errorf("%w: an upgrade", ErrProtocol)
	}
	resp.Status = h.Status
	text := b.exchange.Text()
	resp.Header.Grow(len(h.Fields))
	for _, f := range h.Fields {
		resp.Header.Add(text[f.Name.Start:f.Name.End], text[f.Value.Start:f.Value.End])
	}
	if h.ContentLength > limit && method != "HEAD" && h.Status != 304 {
		b.fail(ErrTooLarge)
	} else {
		b.fill(false)
	}
	done = true
	if b.exchange != nil {
		c.register(b)
	}
	return resp, nil
}

// group returns the server of u. When there are too many, the client forgets all of them. The old
// pool closes its connections when their idle time is over.
func (c *Client) group(t *loop.Thread, u *url.URL, until time.Time) (*upstream.Group, error) {
	switch {
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil:
		return nil, errors.New("expected http:// or https://, with a host and without a user")
	case !http1.ValidAuthority(u.Host):
		return nil, errors.New("expected the host in ASCII")
	case strings.HasPrefix(u.Host, "unix:"):
		// For upstream.Settings that is the path of a socket, which no server may lead to.
		return nil, errors.New("a host with the name unix can have no port")
	}
	if u.Scheme == "https" && !c.rootsLoaded.Load() && (c.TLS == nil || c.TLS.RootCAs == nil) {
		// The first time they come from the disk.
		load := func(context.Context) error { upstream.LoadRoots(); return nil }
		if err := t.Await(max(time.Until(until), 0), load); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConnect, err)
		}
		c.rootsLoaded.Store(true)
	}
	at := origin{u.Scheme, u.Host}
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.origins[at]; g != nil {
		return g, nil
	}
	if c.origins == nil || len(c.origins) >= maxOrigins {
		c.origins, c.pool = make(map[origin]*upstream.Group), new(upstream.Pool)
	}
	g, err := c.pool.Group(upstream.Settings{
		Addresses: []string{u.Scheme + "://" + u.Host}, TLS: upstream.SecurityOf(c.TLS),
		QueueTimeout: connectTimeout, ConnectTimeout: connectTimeout,
		MaxIdle: maxIdle, IdleTimeout: idleTimeout, KeepaliveTime: maxAge, Newest: true, HTTP2: c.HTTP2,
		HTTP1: true,
	})
	if err == nil {
		c.origins[at] = g
	}
	return g, err
}

// check returns an error of r, apart from its URL.
func (r *Request) check(method string) error {
	if !http1.ValidToken(method) || method == "CONNECT" {
		return fmt.Errorf("%q is no method of a client", method)
	}
	if r.host != "" && !http1.ValidAuthority(r.host) {
		return fmt.Errorf("%q is no host", r.host)
	}
	for name, value := range r.Header.All() {
		switch {
		case !http1.ValidToken(name), !http1.ValidFieldValue(value):
			return fmt.Errorf("%q: expected the name and the value of a header field", name)
		case ascii.EqualFold(name, "Host"), ascii.EqualFold(name, "Connection"),
			ascii.EqualFold(name, "Content-Length"), ascii.EqualFold(name, "Transfer-Encoding"),
			ascii.EqualFold(name, "Expect"), ascii.EqualFold(name, "Upgrade"),
			ascii.EqualFold(name, "TE") && value != "trailers":
			return fmt.Errorf("the field %s is the client's own", name)
		}
	}
	return nil
}

// appendHead appends the head of the request.
func appendHead(out []byte, r *Request, u *url.URL, method string, body bodyContent,
	foreign bool) []byte {
	out = append(append(out, method...), ' ')
	out = append(out, cmp.Or(u.EscapedPath(), "/")...)
	if u.RawQuery != "" {
		out = append(out, '?')
		for i := range len(u.RawQuery) {
			if b := u.RawQuery[i]; b > ' ' && b < 0x7f {
				out = append(out, b)
			} else {
				const hex = "0123456789ABCDEF"
				out = append(out, '%', hex[b>>4], hex[b&15])
			}
		}
	}
	out = append(append(append(out, " HTTP/1.1\r\nHost: "...), cmp.Or(r.host, u.Host)...), "\r\n"...)
	agent := false
	for name, value := range r.Header.All() {
		switch {
		case foreign && (ascii.EqualFold(name, "Authorization") || ascii.EqualFold(name, "Cookie")):
			continue
		case ascii.EqualFold(name, "User-Agent"):
			agent = true
		case ascii.EqualFold(name, "TE"): // by HTTP/1.1 it is for this connection
			out = append(out, "Connection: TE\r\n"...)
		}
		out = append(append(append(append(out, name...), ": "...), value...), "\r\n"...)
	}
	if !agent { // some servers ask for one
		out = append(out, "User-Agent: lwango\r\n"...)
	}
	switch n := body.length(); {
	case n < 0:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case n > 0 || method == "POST" || method == "PUT" || method == "PATCH":
		out = append(out, "Content-Length: "...)
		out = append(strconv.AppendInt(out, n, 10), "\r\n"...)
	}
	return append(out, "\r\n"...)
}

// register closes b when its thread has ended, or the thread's request. A thread
// registers one deferred call for that, however many answers it asks for.
func (c *Client) register(b *Body) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, deferred := c.open[b.t]
	if b.next = first; first != nil {
		first.before = b
	}
	if c.open == nil {
		c.open = make(map[*loop.Thread]*Body)
	}
	c.open[b.t], b.registered = b, true
	if t := b.t; !deferred {
		t.Defer(func() {
			c.mu.Lock()
			b := c.open[t]
			delete(c.open, t)
			c.mu.Unlock()
			for b != nil {
				next := b.next
				b.registered = false
				b.drop()
				b.err = errEnded
				b = next
			}
		})
	}
}

// unregister undoes register.
func (c *Client) unregister(b *Body) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.next != nil {
		b.next.before = b.before
	}
	if b.before != nil {
		b.before.next = b.next
	} else {
		c.open[b.t] = b.next // which may be nil: the deferred call is still registered
	}
	b.next, b.before, b.registered = nil, nil, false
}

var errEnded = errors.New("the thread of the request has ended, or the body was closed")

// clientLeft reports that the thread's own client has left.
func clientLeft(err error) bool {
	return errors.Is(err, loop.ErrClientGone) || errors.Is(err, loop.ErrCanceled)
}

// remaining returns how much of the time is left, unless the thread may not wait at all: what it
// needs may be there already, and the connection goes on for as long as that is so.
func (b *Body) remaining() (time.Duration, error) {
	if err := b.t.Layer().Refused(); err != nil {
		return 0, err
	}
	d := time.Until(b.until)
	if d <= 0 {
		return 0, loop.ErrDeadlineExceeded
	}
	return d, nil
}
