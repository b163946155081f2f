package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
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
	Addr  string // of the server
	Root  string // of the files that it has
	Group int    // of its processes
	Tool  string // the program h2load

	timing
	Patience time.Duration // a client fails when what must come takes longer
}

// A timing is how long the parts of a measurement take.
type timing struct {
	Warmup   time.Duration // of closed-loop load, not counted
	Duration time.Duration // of the load that is measured
	Settle   time.Duration // before resident memory is read
	Spread   time.Duration // over which sleepers wake
}

// clients load a server, each in a process of its own, and report the figures. Before a client
// measures, it asks for the same and compares what comes: a server that closes, answers short, or
// in the wrong order is not worth measuring.
var clients = map[string]func(job) figures{
	"load": loadHTTP, "compressed": loadHTTP, "steady": loadLoop, "beside": loadLoop,
	"neighbours": loadNeighbours,
	"cold":       loadLoop, "files": loadCold, "forms": loadForms, "echo": loadLoop, "chat": loadChat,
	"fill": loadFill, "crowd": loadChat, "idle": loadIdle,
	"idlechat": loadIdleChat, "idleevents": loadIdleEvents, "idlesecured": loadIdleSecured,
	"deflated": loadDeflated,
	"sleepers": loadSleepers, "tls": loadTLS, "tlsidle": loadTLSIdle, "handshakes": loadLoop,
	"connections": loadHandshakes,
	"transfer":    loadTransfer, "http2": loadHTTP2, "varied": loadVaried, "stillstreams": loadWaiting,
	"herd": loadHerd, "fresh": loadFresh,
	"bulk": loadBulk, "idle2": loadIdle2, "sockets2": loadSockets2, "grpc": loadGRPC,
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
	f, err := attempt(clients[j.Kind], j)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

// dial opens a connection to the server, with a time limit for all that is done with it. Closing
// resets it: thousands of connections in TIME-WAIT per server would use up the ports.
func (j job) dial() net.Conn {
	conn := must(net.DialTimeout("tcp", j.Addr, verifyLimit))
	check(conn.(*net.TCPConn).SetLinger(0))
	check(conn.SetDeadline(time.Now().Add(2*time.Minute + 8*(j.Duration+j.Settle) + j.Spread)))
	return conn
}

// ask sends a request, with more fields after Host.
func (j job) ask(conn net.Conn, method, path, more string) {
	must(fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, path, j.Addr, more))
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
	conn := j.dial()
	defer conn.Close()
	if j.Secure {
		conn = tls.Client(conn, j.trust())
	}
	j.ask(conn, http.MethodGet, path, "")
	return text(conn)
}

const verifyLimit = time.Minute

// A shape is what all answers of a server have in common, whatever Date says.
type shape struct {
	size    int // with the head; of a chunked answer, as the body, which may come in other chunks
	body    int // as it is encoded
	chunked bool
}

// answerShape sends the work's request twice over one connection, pipelined when the work is.
func (j job) answerShape() shape {
	if j.Cached != "" {
		time.Sleep(time.Second / 2) // lwango opens its store right after it has begun to listen
	}
	conn := j.dial()
	defer conn.Close()
	first := j.exchange(conn)
	if j.Cached != "" { // the first one says that it was not kept
		first = j.exchange(conn)
	}
	if again := j.exchange(conn); again != first && !(j.Varied && again.body == first.body) {
		failf("GET %s: answers of %d bytes and of %d", j.Path, first.size, again.size)
	}
	return first
}

// exchange sends the work's request and compares the answers.
func (j job) exchange(conn net.Conn) (its shape) {
	check(conn.SetDeadline(time.Now().Add(verifyLimit)))
	must(conn.Write(j.request(j.Addr)))
	var seen bytes.Buffer
	in := bufio.NewReader(io.TeeReader(conn, &seen))
	for range j.Depth {
		resp := must(http.ReadResponse(in, nil))
		got, want := must(io.ReadAll(resp.Body)), j.body()
		its.body, its.chunked = len(got), resp.ContentLength < 0
		length, encoding := int64(len(want)), resp.Header.Get("Content-Encoding")
		if j.Encoding != "" && encoding == j.Encoding {
			length = resp.ContentLength // net/http has compared it with the body
			got = must(io.ReadAll(must(gzip.NewReader(bytes.NewReader(got)))))
		}
		server, kind := resp.Header.Get("Server"), resp.Header.Get("Content-Type")
		fault := ""
		switch {
		case resp.StatusCode != http.StatusOK:
			fault = "status " + resp.Status
		case resp.Close:
			fault = "the connection does not stay open"
		case encoding != j.Encoding:
			fault = fmt.Sprintf("Content-Encoding %q", encoding)
		case resp.ContentLength != length:
			fault = fmt.Sprintf("Content-Length %d", resp.ContentLength)
		case !bytes.Equal(got, want):
			fault = fmt.Sprintf("wrong body, begins with %.60q", got)
		case its.chunked && j.Depth > 1:
			fault = "a chunked answer, whose end is looked for only at the end of what has come"
		case files[j.Path] == nil && !strings.HasPrefix(kind, j.kindOfBody()):
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
	if its.size = seen.Len() / j.Depth; its.chunked {
		its.size = its.body
	}
	return its
}
