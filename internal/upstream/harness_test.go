package upstream_test

import (
	"bufio"
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
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// service is an upstream. A request is a line, and so is its answer.
type service struct {
	address string // as in a configuration
	answer  func(conn int, line string) string
	pool    *upstream.Pool // whose idle connections end when the test waits for that
	running sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
	stopped  bool
	accepted int
	lines    []string // of all connections, in the order in which they came
}

// start starts a service on a new UNIX socket that answers each line until the test ends.
func start(t *testing.T, answer func(conn int, line string) string) *service {
	return startAt(t, "unix:"+t.TempDir()+"/s", answer)
}

// startAt does so at an address.
func startAt(t *testing.T, address string, answer func(conn int, line string) string) *service {
	t.Helper()
	s := &service{address: address, answer: answer, open: make(map[net.Conn]bool)}
	network, at := "tcp", address
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, at = "unix", path
	}
	var err error
	if s.listener, err = net.Listen(network, at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	s.running.Go(s.accept)
	return s
}

func (s *service) accept() {
	for c, err := s.listener.Accept(); err == nil; c, err = s.listener.Accept() {
		s.mu.Lock()
		if s.stopped { // stop could not close this one
			s.mu.Unlock()
			c.Close()
			return
		}
		s.accepted++
		n := s.accepted
		s.open[c] = true
		s.mu.Unlock()
		s.running.Go(func() {
			for in := bufio.NewScanner(c); in.Scan(); {
				s.mu.Lock()
				s.lines = append(s.lines, in.Text())
				s.mu.Unlock()
				fmt.Fprintln(c, s.answer(n, in.Text()))
			}
			c.Close()
			s.mu.Lock()
			delete(s.open, c)
			s.mu.Unlock()
		})
	}
}

// stop closes the listener and all connections, as if the process had been killed.
func (s *service) stop() {
	s.mu.Lock()
	s.stopped = true
	s.listener.Close()
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// seen returns the requests so far.
func (s *service) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.lines...)
}

// connections returns how many connections there are, and how many there have been.
func (s *service) connections() (open, accepted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open), s.accepted
}

// requests waits until there have been n.
func (s *service) requests(t *testing.T, n int) {
	t.Helper()
	wait.Until(t, fmt.Sprint(n, " requests"), func() bool { return len(s.seen()) == n })
}

// closed waits until no connection is open. The time of those that the pool keeps has come then.
func (s *service) closed(t *testing.T) {
	t.Helper()
	if s.pool != nil {
		s.pool.Age(time.Minute)
	}
	wait.Until(t, "no connection is open", func() bool {
		open, _ := s.connections()
		return open == 0
	})
}

// says is the answer of a service that always gives the same.
func says(text string) func(int, string) string { return func(int, string) string { return text } }

// crowd starts n services that answer with their number.
func crowd(t *testing.T, n int) (all []*service, addresses []string) {
	for i := range n {
		s := start(t, says(fmt.Sprint(i)))
		all, addresses = append(all, s), append(addresses, s.address)
	}
	return all, addresses
}

// stepwise is a service that answers a request when it is told to, and all when the test ends.
func stepwise(t *testing.T) (*service, chan<- bool) {
	goOn, ended := make(chan bool), make(chan bool)
	s := start(t, func(int, string) string {
		select {
		case <-goOn:
		case <-ended:
		}
		return "hello"
	})
	t.Cleanup(func() { close(ended) })
	return s, goOn
}

// route is a group whose requests run on a loop of its own.
type route struct {
	loops *loops.Loops
	*upstream.Group
	prepare func(l *upstream.Lease, line string) // nil: nothing
	after   func(l *upstream.Lease)              // nil: nothing
	ended   <-chan struct{}                      // closed when the test ends

	mu        sync.Mutex
	unreached []string // names of upstreams
}

// newRoute makes a route to the addresses. Its limits are wide where change does not narrow them.
func newRoute(t *testing.T, pool *upstream.Pool, addresses []string,
	change func(*upstream.Settings)) *route {
	t.Helper()
	r := &route{ended: t.Context().Done()}
	s := upstream.Settings{
		Addresses: addresses, MaxQueue: 1024, QueueTimeout: time.Minute,
		IdleTimeout: 3 * time.Second, ConnectTimeout: 5 * time.Second,
		ConnectFailed: func(name string, err error) {
			r.mu.Lock()
			r.unreached = append(r.unreached, name)
			r.mu.Unlock()
		},
	}
	if change != nil {
		change(&s)
	}
	var err error
	if r.Group, err = pool.Group(s); err != nil {
		t.Fatal(err)
	}
	r.loops = loops.Start(t, modes.Direct, nil, nil)
	return r
}

// got is what has become of a request.
type got struct {
	text string
	err  error
}

// ask sends a request, whose end goes to done.
func (r *route) ask(line string, fresh bool, done chan<- got) {
	r.loops.Go(0, func(th *loop.Thread) {
		r.tell(th, line, fresh, done)
	})
}

// tell sends a request, and its end to done. A test that has failed does not wait for that.
func (r *route) tell(th *loop.Thread, line string, fresh bool, done chan<- got) {
	text, err := r.request(th, line, fresh)
	select {
	case done <- got{text, err}:
	case <-r.ended:
	}
}

// request sends a request on thread th.
func (r *route) request(th *loop.Thread, line string, fresh bool) (string, error) {
	l := r.Lease()
	defer l.Release()
	if r.prepare != nil {
		r.prepare(&l, line)
	}
	want := upstream.Reused
	if fresh {
		want = upstream.Fresh
	}
	s, _, err := l.Connect(th, want)
	if err != nil {
		return "", err
	}
	if _, err = io.WriteString(s, line+"\n"); err == nil {
		line, err = bufio.NewReader(s).ReadString('\n')
	}
	if err != nil {
		_ = s.Close()
		return "", err
	}
	l.NoteSuccess()
	l.Keep(s, 0)
	if r.after != nil {
		r.after(&l)
	}
	return strings.TrimSuffix(line, "\n"), nil
}

// get sends a request, for which an idle connection will do, and waits for its answer.
func (r *route) get(line string) got {
	done := make(chan got, 1)
	r.ask(line, false, done)
	return <-done
}

// texts sends n requests, one after the other, and returns their answers.
func (r *route) texts(n int) (all string) {
	for range n {
		all += r.get("x").text
	}
	return all
}

// missed returns the upstreams that were not reached, since it was called last.
func (r *route) missed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.unreached
	r.unreached = nil
	return all
}

// nobody returns an address at which no process listens.
func nobody(t *testing.T, network string) string {
	t.Helper()
	if network == "tcp" {
		return refuse.Address(t)
	}
	at := t.TempDir() + "/s"
	must.Do(t, must.Get(net.Listen("unix", at))(t).Close())
	return "unix:" + at
}
