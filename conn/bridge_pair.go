package conn

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/base/goroutine"
	"github.com/lwango/lwango/loop"
)

// pair is a thread and a goroutine that take turns: one runs, and the other waits until it is asked
// to run a function, or told that its own has returned. So the two share variables without a lock,
// and functions may call each other across, to any depth. It is a loop.Source of the thread.
type pair struct {
	thread *loop.Thread
	jobs   chan job // for the goroutine; closed when the thread has left
	id     uint64   // of the goroutine
	stack  []byte   // of the panic that goes through both; nil: there is none

	mu      sync.Mutex
	asked   job // for the thread
	has     bool
	watched bool
	over    bool // the goroutine has ended, with what is asked
	left    bool // the thread runs no more functions
}

// job is a function to run; without one, the last one that was asked for has returned, or panicked.
type job struct {
	run      func()
	panicked any
}

// do runs the function of j, and returns the answer.
func (p *pair) do(j job) (answer job) {
	returned := false
	defer func() {
		if returned {
			p.stack = nil
			return
		}
		if answer.panicked = recover(); answer.panicked == nil { // runtime.Goexit
			answer.panicked = http.ErrAbortHandler
		}
		if p.stack == nil { // of a panic that has begun here
			p.stack = debug.Stack()
		}
	}()
	j.run()
	returned = true
	return answer
}

// run is the goroutine. ended, unless it is nil, is called at its end.
func (p *pair) run(f func(), ended func()) {
	p.id = goroutine.ID()
	answer := job{panicked: http.ErrAbortHandler} // to runtime.Goexit
	defer func() {
		if ended != nil { // before the client can see it, and ask for more
			ended()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.over = true
		p.put(answer)
	}()
	answer = p.do(job{run: f})
}

// own reports whether the calling goroutine is the pair's.
func (p *pair) own() bool { return goroutine.ID() == p.id }

// onThread runs f on the thread. The goroutine calls it; for another one it returns an error.
func (p *pair) onThread(f func()) error {
	if !p.own() {
		return errOtherGoroutine
	}
	if !p.send(job{run: f}) {
		panic(http.ErrAbortHandler)
	}
	for j := range p.jobs {
		if j.run != nil {
			p.send(p.do(j))
			continue
		}
		if j.panicked != nil {
			panic(j.panicked)
		}
		return nil
	}
	panic(http.ErrAbortHandler) // the thread was killed
}

// send gives the thread a job, and reports false if the thread has left.
func (p *pair) send(j job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.left {
		p.put(j)
	}
	return !p.left
}

// put is send under the lock, to a thread that may have left.
func (p *pair) put(j job) {
	p.asked, p.has = j, true
	if p.watched {
		p.watched = false
		loop.Notify(p.thread)
	}
}

// onGoroutine runs f on the goroutine. The thread calls it.
func (p *pair) onGoroutine(f func()) {
	p.jobs <- job{run: f}
	if panicked := p.serve(); panicked != nil {
		panic(panicked)
	}
}

// serve runs what the goroutine asks for, until it says that its function has returned, or
// panicked. If the client leaves meanwhile, the thread waits all the same: a goroutine that does
// not notice counts.
func (p *pair) serve() (panicked any) {
	for {
		was, budget := p.thread.KeepWaiting(true), p.thread.Layer().SetBudget(0)
		despite := p.thread.Layer().WaitDespiteFailures(true) // they are the Handler's
		_, err := p.thread.AwaitAny(-1, p)
		p.thread.Layer().WaitDespiteFailures(despite)
		p.thread.Layer().SetBudget(budget) // which the http.Request's context has, too
		p.thread.KeepWaiting(was)
		if err != nil {
			return http.ErrAbortHandler // the thread's waits are refused
		}
		p.mu.Lock()
		j := p.asked
		if !p.over { // else it answers all that the thread still waits for
			p.asked, p.has = job{}, false
		}
		p.mu.Unlock()
		if j.run == nil {
			return j.panicked
		}
		p.jobs <- p.do(j)
	}
}

// returned reports whether the goroutine has ended.
func (p *pair) returned() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over
}

// leave ends the thread's part. What the goroutine asks for from then on panics.
func (p *pair) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = true
	close(p.jobs)
}

// Watch implements loop.Source.
func (p *pair) Watch(*loop.Thread) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched = true
	return nil
}

// Ready implements loop.Source.
func (p *pair) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.has
}

// Unwatch implements loop.Source.
func (p *pair) Unwatch(*loop.Thread) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched = false
}

// errOtherGoroutine is the error of what another goroutine than the request's calls.
var errOtherGoroutine = errors.New("conn: HTTPMiddleware: next, the ResponseWriter, or the body " +
	"was used on another goroutine than that of the middleware's handler, as http.TimeoutHandler " +
	"does; such middleware needs an http.Handler behind it (HTTP)")

// errNoMiddlewareHijack refuses a Hijack of the middleware itself.
var errNoMiddlewareHijack = fmt.Errorf("conn: a middleware off the loop cannot take over the "+
	"connection, but its handler can: %w", http.ErrNotSupported)

// pairOutlet is the outlet of a writer that the goroutine uses. The head goes to the response along
// with what comes next.
type pairOutlet struct {
	outlet
	of     *pair
	status int // of the head; 0: there is none, or it was passed on
	header http.Header
	around *around
}

// begin passes the head on. The thread calls it.
func (o *pairOutlet) begin() {
	if o.status != 0 {
		o.outlet.open(o.status, o.header)
		o.status = 0
	}
}

func (o *pairOutlet) open(status int, h http.Header) { o.status, o.header = status, h.Clone() }

func (o *pairOutlet) inform(status int, h http.Header) {
	_ = o.of.onThread(func() { o.outlet.inform(status, h) })
}

// Write implements io.Writer.
func (o *pairOutlet) Write(p []byte) (n int, err error) {
	other := o.of.onThread(func() { o.begin(); n, err = o.outlet.Write(p) })
	return n, cmp.Or(other, err)
}

// WriteString implements io.StringWriter.
func (o *pairOutlet) WriteString(s string) (n int, err error) {
	other := o.of.onThread(func() { o.begin(); n, err = o.outlet.WriteString(s) })
	return n, cmp.Or(other, err)
}

// Flush sends what was written.
func (o *pairOutlet) Flush() (err error) {
	other := o.of.onThread(func() { o.begin(); err = o.outlet.Flush() })
	return cmp.Or(other, err)
}

func (o *pairOutlet) setReadDeadline(t time.Time) {
	_ = o.of.onThread(func() { o.outlet.setReadDeadline(t) })
}

func (o *pairOutlet) setWriteDeadline(t time.Time) {
	_ = o.of.onThread(func() { o.outlet.setWriteDeadline(t) })
}

// Hijack takes over the connection for the Handler, whose thread keeps it.
func (o *pairOutlet) Hijack() (c net.Conn, r *bufio.Reader, err error) {
	if !o.around.hijacks {
		return nil, nil, errNoMiddlewareHijack
	}
	other := o.of.onThread(func() { o.begin(); c, r, err = o.outlet.Hijack() })
	return c, r, cmp.Or(other, err)
}

// pairBody is the request's body for the goroutine.
type pairBody struct {
	body io.ReadCloser
	of   *pair
}

// Read implements io.Reader.
func (b *pairBody) Read(p []byte) (n int, err error) {
	other := b.of.onThread(func() { n, err = b.body.Read(p) })
	return n, cmp.Or(other, err)
}

// Close implements io.Closer.
func (b *pairBody) Close() (err error) {
	other := b.of.onThread(func() { err = b.body.Close() })
	return cmp.Or(other, err)
}
