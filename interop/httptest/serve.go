package httptest

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"reflect"
	"strings"
	"sync"

	"github.com/lwango/lwango/internal/wire/http1"
)

// Serve stands for serve(w, r), where serve is the ServeHTTP of an http.Handler. If w is a
// recorder, r goes through a socket to a lwango server, which calls serve by the bridge, and w
// records the answer that comes back. If r cannot be a request of HTTP/1, or if w is something
// else, such as the ResponseWriter of a handler, it is a plain call.
func Serve(serve func(http.ResponseWriter, *http.Request), w http.ResponseWriter, r *http.Request) {
	rec, ok := w.(*ResponseRecorder)
	if !ok || serve == nil {
		serve(w, r)
		return
	}
	replace(rec)
	if !sendable(r) {
		record(caller(), "direct")
		serve(w, r)
		return
	}
	record(caller(), "socket")
	c := &call{serve: serve, r: r, rec: rec, done: make(chan struct{})}
	a, err := c.roundTrip()
	switch {
	case c.panicked != nil:
		panic(c.panicked) // here a test expects it, as without a server
	case err != nil: // which is no reason to end the process, and with it all tests
		http.Error(w, "interop: "+err.Error(), http.StatusBadGateway)
	default:
		c.store(a)
	}
}

func sendable(r *http.Request) bool {
	u, err := url.ParseRequestURI(target(r))
	return err == nil && u != nil && r.ProtoMajor == 1 && r.Method != http.MethodConnect &&
		(r.Method == "" || http1.ValidToken(r.Method)) &&
		!strings.ContainsFunc(target(r)+host(r), func(c rune) bool { return c <= ' ' || c == 0x7f })
}

// target is the target of the request line: RequestURI, unless a test has changed URL since.
func target(r *http.Request) string {
	if r.URL == nil {
		return ""
	}
	if u, err := url.ParseRequestURI(r.RequestURI); err == nil && *u == *r.URL {
		return r.RequestURI
	}
	return r.URL.RequestURI()
}

func host(r *http.Request) string {
	if r.Host == "" {
		return r.URL.Host
	}
	return r.Host
}

// unnamed goes over the wire for a request without a host, which no client can send: lwango answers
// an empty Host with 400, where net/http's server takes it.
const unnamed = "unnamed.invalid"

// call is a request on its way.
type call struct {
	serve func(http.ResponseWriter, *http.Request)
	r     *http.Request // the test's
	rec   *ResponseRecorder

	done     chan struct{} // the handler has returned; what follows is set
	panicked any
	header   http.Header // the handler's
}

// roundTrip sends the request, on a connection of its own, and returns the answer, whose body has
// been read to its end.
func (c *call) roundTrip() (*answer, error) {
	conn, err := net.Dial("tcp", server().Listener.Addr().String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	local := conn.LocalAddr().String()
	calls.Store(local, c)
	sent := make(chan error, 1)
	go func() { sent <- c.send(conn) }()
	a, err := receive(bufio.NewReader(conn), c.r.Method)
	if _, untaken := calls.LoadAndDelete(local); !untaken {
		<-c.done
		return a, err
	}
	if err == nil {
		return a, nil // the server's own answer
	}
	if failed := <-sent; failed != nil {
		err = fmt.Errorf("the request was not sent: %w", failed)
	}
	return nil, err
}

// send writes the request as it is, without the fields that a client adds.
func (c *call) send(conn net.Conn) error {
	r := c.r
	w := bufio.NewWriter(conn)
	method := cmp.Or(r.Method, http.MethodGet)
	fmt.Fprintf(w, "%s %s HTTP/1.%d\r\nHost: %s\r\n", method, target(r), r.ProtoMinor,
		cmp.Or(host(r), unnamed))
	except := map[string]bool{"Host": true, "Content-Length": true, "Transfer-Encoding": true}
	if err := r.Header.WriteSubset(w, except); err != nil {
		return err
	}
	if r.Close && r.Header.Get("Connection") == "" {
		fmt.Fprint(w, "Connection: close\r\n")
	}
	var err error
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		if values := r.Header["Content-Length"]; len(values) == 1 && values[0] == "0" {
			fmt.Fprint(w, "Content-Length: 0\r\n")
		}
		fmt.Fprint(w, "\r\n")
	case r.ContentLength > 0:
		fmt.Fprintf(w, "Content-Length: %d\r\n\r\n", r.ContentLength)
		_, err = io.CopyN(w, r.Body, r.ContentLength)
	case r.ProtoMinor == 0:
		err = fmt.Errorf("a body without a length in HTTP/1.0")
	default:
		fmt.Fprint(w, "Transfer-Encoding: chunked\r\n\r\n")
		if err = w.Flush(); err != nil { // the body may be long in coming
			return err
		}
		cw := httputil.NewChunkedWriter(w)
		if _, err = io.Copy(flushing{cw, w}, r.Body); err == nil {
			_ = cw.Close()
			fmt.Fprint(w, "\r\n")
		}
	}
	if err != nil {
		conn.Close()
		return err
	}
	return w.Flush()
}

// flushing sends each piece at once.
type flushing struct {
	io.Writer
	w *bufio.Writer
}

// Write implements io.Writer.
func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.w.Flush()
	}
	return n, err
}

// answer is a response, and its whole body.
type answer struct {
	*http.Response
	body []byte
}

func receive(br *bufio.Reader, method string) (*answer, error) {
	for {
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return nil, fmt.Errorf("the answer ends after %d bytes of the body: %w", len(body), err)
			}
			return &answer{resp, body}, nil
		}
	}
}

// added are fields that a server adds of its own accord, and a recorder does not.
var added = map[string]bool{"Date": true, "Content-Length": true, "Connection": true,
	"Server": true}

// store records the answer.
func (c *call) store(a *answer) {
	h := c.rec.Header()
	clear(h)
	for name, values := range a.Header {
		if _, own := c.header[name]; own || !added[name] {
			h[name] = values
		}
	}
	c.rec.WriteHeader(a.StatusCode)
	if len(a.body) > 0 {
		_, _ = c.rec.Write(a.body) // to memory
	}
	if len(a.TransferEncoding) > 0 {
		c.rec.Flush()
	}
	maps.Copy(h, a.Trailer)
}

// calls are those on their way, by the address of the client's end of their connections.
var calls sync.Map // string: *call

// server is the server for all calls of the process.
var server = sync.OnceValue(func() *Server {
	s := &Server{Listener: listen()}
	s.serve(nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ok := calls.LoadAndDelete(r.RemoteAddr)
		if !ok {
			panic("interop: a second request on a connection")
		}
		c.(*call).run(w, r)
	}))
	return s
})

// run calls the handler. What a handler can see of a request and what no client can send, such as a
// context with values, comes from the test's request.
func (c *call) run(w http.ResponseWriter, r *http.Request) {
	if c.r.Context() != context.Background() {
		ctx, cancel := join(r.Context(), c.r.Context())
		defer cancel()
		r = r.WithContext(ctx)
	}
	r.RemoteAddr, r.TLS = c.r.RemoteAddr, c.r.TLS
	if r.Host == unnamed {
		r.Host = ""
	}
	maps.Copy(w.Header(), c.rec.Header())
	url, header := *r.URL, r.Header.Clone()
	defer func() {
		c.header = w.Header().Clone()
		// A test may look at what a handler has made of the request.
		if *r.URL != url {
			c.r.URL = r.URL
		}
		if !reflect.DeepEqual(header, r.Header) {
			c.r.Header = r.Header
		}
		c.r.Form, c.r.PostForm, c.r.MultipartForm = r.Form, r.PostForm, r.MultipartForm
		c.r.Method, c.r.Host, c.r.Pattern = r.Method, r.Host, r.Pattern
		c.panicked = recover()
		close(c.done)
		if c.panicked != nil {
			panic(c.panicked)
		}
	}()
	c.serve(w, r)
}

// join makes a context that ends with the connection's or with the test's, and has the values of
// both.
func join(conn, test context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(conn)
	stop := context.AfterFunc(test, func() { cancel(context.Cause(test)) })
	end := func() {
		stop()
		cancel(nil)
	}
	if d, ok := test.Deadline(); ok {
		timed, cancelTimed := context.WithDeadline(ctx, d)
		return &valued{timed, test}, func() { cancelTimed(); end() }
	}
	return &valued{ctx, test}, end
}
