package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/lwango/lwango/bench/tasks"
)

// A job is what a client is told.
type job struct {
	load
	Addrs []string // of the servers; all clients but the chat's take the first
	PIDs  []int    // their processes

	Warmup, Duration time.Duration
	Settle           time.Duration // before resident memory is read
	Spread           time.Duration // over which sleepers wake

	Listen   time.Duration // for what a connection begins with to be answered
	Patience time.Duration // of the chat: see loadChat
	cpu      int           // of the client
}

// clients load a server, each in a process of its own, and report the figures; before, verify asks
// for what is going to be measured.
var clients = map[string]struct {
	load   func(job) figures
	verify func(job)
}{
	"load":     {loadHTTP, verifyHTTP},
	"steady":   {loadLoop, verifyHTTP},
	"beside":   {loadLoop, verifyHTTP},
	"echo":     {loadLoop, verifyEcho},
	"chat":     {loadChat, verifyChat},
	"idle":     {loadIdle, verifyHTTP},
	"idlews":   {loadIdleWS, verifyChat},
	"sleepers": {loadSleepers, verifySleep},
	"waiting":  {loadSleepers, verifySleep},
	"transfer": {loadTransfer, func(j job) { j.move(100_000) }},
}

// A client ends with its first error. So check, must and failf panic with a failure, and attempt,
// at the client's entry, returns it as an error.
type failure struct{ error }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func failf(format string, args ...any) { check(fmt.Errorf(format, args...)) }

func attempt[A, R any](do func(A) R, with A) (result R, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	return do(with), nil
}

// clientCommand is `bench client JOB`. One thread does everything and no garbage is collected,
// so neither Go's scheduler nor its collector adds to what is measured.
func clientCommand(args []string) error {
	var j job
	if len(args) != 1 {
		return errors.New("usage: bench client JOB")
	}
	if err := json.Unmarshal([]byte(args[0]), &j); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	f, err := attempt(clients[j.Kind].load, j)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

// A crowd is HTTP connections that are used one after the other.
type crowd struct {
	job
	conns []net.Conn
}

// join opens n more connections and returns the last.
func (c *crowd) join(n int) (conn net.Conn) {
	for range n {
		conn = must(net.DialTimeout("tcp", c.Addrs[0], verifyLimit))
		c.conns = append(c.conns, conn)
	}
	return conn
}

// leave resets the connections, as reactor.reset does.
func (c *crowd) leave() {
	for _, conn := range c.conns {
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
	c.conns = nil
}

// ask sends a request, with more fields after Host, and gives it a time limit.
func (c *crowd) ask(conn net.Conn, method, path, more string) {
	check(conn.SetDeadline(time.Now().Add(2*time.Minute + 8*(c.Duration+c.Settle) + c.Spread)))
	must(io.WriteString(conn, method+" "+path+" HTTP/1.1\r\nHost: "+c.Addrs[0]+"\r\n"+more+"\r\n"))
}

// answer reads the head of an answer, which must be good. The caller reads the body.
func answer(conn io.Reader) *http.Response {
	resp := must(http.ReadResponse(bufio.NewReader(conn), nil))
	if resp.StatusCode != http.StatusOK {
		failf("status %s", resp.Status)
	}
	return resp
}

func text(conn io.Reader) string { return string(must(io.ReadAll(answer(conn).Body))) }

// once asks on a connection of its own.
func (j job) once(path string) string {
	c := crowd{job: j}
	defer c.leave()
	c.ask(c.join(1), http.MethodGet, path, "")
	return text(c.conns[0])
}

const verifyLimit = 10 * time.Second

// verifyEcho sends messages as long as the work's, and of one byte.
func verifyEcho(j job) {
	j.Conns, j.Warmup, j.Duration = 1, 0, 0
	for _, j.Size = range []int64{j.Size, 1} {
		loadLoop(j)
	}
}

func verifyHTTP(j job) { j.answerSize() }

// answerSize sends the work's request twice over one connection, pipelined when the work is, and
// returns how long an answer is with its head.
func (j job) answerSize() int {
	c := crowd{job: j}
	defer c.leave()
	conn := c.join(1)
	size := j.exchange(conn)
	if again := j.exchange(conn); again != size {
		failf("GET %s: answers of %d bytes and of %d", j.Path, size, again)
	}
	return size
}

// exchange sends the work's request, compares the answers and returns how long one is with its
// head.
func (j job) exchange(conn net.Conn) int {
	check(conn.SetDeadline(time.Now().Add(verifyLimit)))
	must(conn.Write(j.request(j.Addrs[0])))
	var seen bytes.Buffer
	in := bufio.NewReader(io.TeeReader(conn, &seen))
	for range j.Depth {
		resp := must(http.ReadResponse(in, nil))
		got, want := must(io.ReadAll(resp.Body)), j.body()
		server, kind := resp.Header.Get("Server"), resp.Header.Get("Content-Type")
		fault := ""
		switch {
		case resp.StatusCode != http.StatusOK:
			fault = "status " + resp.Status
		case resp.Close:
			fault = "the connection does not stay open"
		case resp.ContentLength != int64(len(want)):
			fault = fmt.Sprintf("Content-Length %d", resp.ContentLength)
		case !bytes.Equal(got, want):
			fault = fmt.Sprintf("wrong body, begins with %.60q", got)
		case files[j.Path] == nil && !strings.HasPrefix(kind, "text/plain"):
			fault = "Content-Type " + kind
		case resp.Header.Get("Date") == "" || server == "" || kind == "":
			fault = "Date, Server or Content-Type is missing"
		case j.Path == tasks.BridgePath && server != tasks.Server:
			fault = "not the handler of net/http, but " + server
		}
		if fault != "" {
			failf("GET %s: %s", j.Path, fault)
		}
	}
	if in.Buffered() > 0 || seen.Len()%j.Depth != 0 {
		failf("GET %s: other bytes than the answers asked for", j.Path)
	}
	return seen.Len() / j.Depth
}
