package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// waitingOptions are what the client of requests that wait for an application is told.
type waitingOptions struct {
	Open   openLoopOptions // of the other route
	Conns  int             // that wait
	Settle time.Duration   // before resident memory is read
}

// waitingReport is what it found.
type waitingReport struct {
	Before, Waiting int64 // resident bytes of the server
	Alone, Beside   openLoopReport
}

// besideRate is what the other route is asked for, in requests/s, on besideConns connections: far below what any of the
// servers can do, so that what is seen is how long one of them is kept from it.
const (
	besideRate  = 2000
	besideConns = 16
)

func runWaiting(ctx context.Context, env *environment, s settings, w work, srv *server) (waitingReport, error) {
	options := waitingOptions{
		Open: openLoopOptions{Addr: srv.addr, Request: w.request(srv.addr), Depth: 1, Conns: besideConns, Rate: besideRate,
			Duration: s.duration, Body: int64(len(w.body)), PIDs: srv.pids},
		Conns: w.conns, Settle: s.settle,
	}
	var report waitingReport
	err := runClient(ctx, env, w, "waiting", options, &report, 4*s.duration+2*s.settle+verifyLimit)
	return report, err
}

// loadWaiting has requests wait for an application that answers none of them until it is told to, and asks another route
// before and meanwhile.
func loadWaiting(o waitingOptions) (report waitingReport, err error) {
	in := bufio.NewReader(nil)
	warm, err := o.wait(in, min(warmConns, o.Conns))
	if err == nil {
		err = o.release(in, warm)
	}
	closeAll(warm)
	if err != nil {
		return report, fmt.Errorf("warming up: %w", err)
	}
	if report.Alone, err = openLoop(o.Open); err != nil {
		return report, err
	}
	time.Sleep(o.Settle)
	if report.Before, err = residentMemory(o.Open.PIDs); err != nil {
		return report, err
	}
	conns, err := o.wait(in, o.Conns)
	defer closeAll(conns)
	if err != nil {
		return report, err
	}
	time.Sleep(o.Settle)
	if report.Waiting, err = residentMemory(o.Open.PIDs); err != nil {
		return report, err
	}
	if report.Beside, err = openLoop(o.Open); err != nil {
		return report, err
	}
	if n, err := o.held(in); err != nil || n != o.Conns {
		return report, fmt.Errorf("%d requests waited to the end, want %d (%v)", n, o.Conns, err)
	}
	return report, o.release(in, conns)
}

// wait sends requests on connections of their own and returns when the application has got them all. It gives what it
// opened, also with an error.
func (o waitingOptions) wait(in *bufio.Reader, n int) ([]net.Conn, error) {
	conns := make([]net.Conn, 0, n)
	for len(conns) < n {
		conn, err := net.DialTimeout("tcp", o.Open.Addr, verifyLimit)
		if err != nil {
			return conns, fmt.Errorf("connection %d of %d: %w", len(conns)+1, n, err)
		}
		conns = append(conns, conn)
		if err := o.ask(conn, holdScript); err != nil {
			return conns, err
		}
	}
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		switch got, err := o.held(in); {
		case err != nil:
			return conns, err
		case got == n:
			return conns, nil
		case time.Since(start) > verifyLimit:
			return conns, fmt.Errorf("%d of %d requests have reached the application after %v", got, n, verifyLimit)
		}
	}
}

// held asks how many wait.
func (o waitingOptions) held(in *bufio.Reader) (int, error) {
	body, err := o.once(in, heldScript)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(body)
}

// release has all of them answered and reads the answers.
func (o waitingOptions) release(in *bufio.Reader, conns []net.Conn) error {
	if _, err := o.once(in, releaseScript); err != nil {
		return err
	}
	for i, conn := range conns {
		if body, err := readBody(in, conn); err != nil || body != hello {
			return fmt.Errorf("request %d of %d, released: %.100q, %v", i+1, len(conns), body, err)
		}
	}
	return nil
}

func (o waitingOptions) once(in *bufio.Reader, path string) (string, error) {
	conn, err := net.DialTimeout("tcp", o.Open.Addr, verifyLimit)
	if err != nil {
		return "", err
	}
	defer closeAll([]net.Conn{conn})
	if err := o.ask(conn, path); err != nil {
		return "", err
	}
	return readBody(in, conn)
}

func (o waitingOptions) ask(conn net.Conn, path string) error {
	if err := conn.SetDeadline(time.Now().Add(4*o.Open.Duration + 2*o.Settle + 2*verifyLimit)); err != nil {
		return err
	}
	_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: "+o.Open.Addr+"\r\nUser-Agent: one of the usual length\r\nAccept: */*\r\n\r\n")
	return err
}

// readBody is of one answer, which must be good.
func readBody(in *bufio.Reader, conn net.Conn) (string, error) {
	in.Reset(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", resp.Status)
	}
	return string(body), err
}
