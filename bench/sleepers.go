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

// sleeperOptions are what the sleepers' client is told.
type sleeperOptions struct {
	Addr   string
	Path   string // which takes ?ms=N
	Conns  int
	Settle time.Duration // before resident memory is read
	Spread time.Duration // over which they wake up
	PIDs   []int         // the server
}

// sleeperReport is what it found.
type sleeperReport struct {
	Before, Asleep int64         // resident bytes of the server
	CPU            cpuUsage      // from the first connection to the last answer
	P50, P99, Max  time.Duration // of the error that the server found in its own waking
}

func runSleepers(ctx context.Context, env *environment, s settings, w work, srv *server) (sleeperReport, error) {
	options := sleeperOptions{Addr: srv.addr, Path: w.path, Conns: w.conns, Settle: s.settle, Spread: s.spread, PIDs: srv.pids}
	var report sleeperReport
	err := runClient(ctx, env, w, "sleepers", options, &report, options.lead()+s.spread+2*s.settle)
	return report, err
}

// lead is when the first of them wakes, since the first request. Until then all are to be sent, and memory read.
func (o sleeperOptions) lead() time.Duration {
	return o.Settle + 500*time.Millisecond + time.Duration(o.Conns)*300*time.Microsecond
}

// due is when the i-th wakes.
func (o sleeperOptions) due(i int) time.Duration {
	return o.lead() + o.Spread*time.Duration(i)/time.Duration(o.Conns)
}

// loadSleepers has one request sleep on each connection: for so long that all sleep at one time, and wake one after the
// other.
func loadSleepers(o sleeperOptions) (report sleeperReport, err error) {
	if o.Conns < 1 {
		return report, fmt.Errorf("%d connections", o.Conns)
	}
	in := bufio.NewReader(nil)
	// As for idle connections: what a server allocates once is to be there before the first reading.
	for range min(warmConns, o.Conns) {
		if _, err := o.sleepOnce(in, time.Millisecond); err != nil {
			return report, fmt.Errorf("warming up: %w", err)
		}
	}
	time.Sleep(o.Settle)
	if report.Before, err = residentMemory(o.PIDs); err != nil {
		return report, err
	}
	before, err := readCPU(o.PIDs)
	if err != nil {
		return report, err
	}

	conns, err := dialAll(o)
	defer closeAll(conns)
	if err != nil {
		return report, err
	}
	start := time.Now()
	for i, conn := range conns {
		if err := o.ask(conn, o.due(i)-time.Since(start)); err != nil {
			return report, fmt.Errorf("connection %d of %d: %w", i+1, o.Conns, err)
		}
	}
	if err := o.waitAsleep(in, start); err != nil {
		return report, err
	}
	time.Sleep(o.Settle)
	if report.Asleep, err = residentMemory(o.PIDs); err != nil {
		return report, err
	}
	if took := time.Since(start); took > o.lead() {
		return report, fmt.Errorf("memory was read after %v, when the first had woken at %v", took, o.lead())
	}

	var late histogram
	for i, conn := range conns { // in the order of their waking: the next to answer is the next to be read
		found, err := readSleep(in, conn)
		if err != nil {
			return report, fmt.Errorf("connection %d of %d: %w", i+1, o.Conns, err)
		}
		late.add(found.late.Abs()) // early would be no better
	}
	after, err := readCPU(o.PIDs)
	if err != nil {
		return report, err
	}
	report.CPU = after.since(before)
	report.P50, report.P99, report.Max = late.quantile(0.50), late.quantile(0.99), late.max
	return report, nil
}

// waitAsleep has one more handler say how many sleep, until all do.
func (o sleeperOptions) waitAsleep(in *bufio.Reader, start time.Time) error {
	for {
		found, err := o.sleepOnce(in, 0)
		if err != nil {
			return err
		}
		if found.asleep == o.Conns+1 {
			return nil
		}
		if time.Since(start) > o.lead() {
			return fmt.Errorf("%d slept at the same time after %v, want %d", found.asleep-1, o.lead(), o.Conns)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// sleepOnce is for one request on a connection of its own.
func (o sleeperOptions) sleepOnce(in *bufio.Reader, d time.Duration) (slept, error) {
	conn, err := net.DialTimeout("tcp", o.Addr, verifyLimit)
	if err != nil {
		return slept{}, err
	}
	defer closeAll([]net.Conn{conn})
	if err := o.ask(conn, d); err != nil {
		return slept{}, err
	}
	return readSleep(in, conn)
}

// dialAll gives the connections that it opened, also with an error.
func dialAll(o sleeperOptions) ([]net.Conn, error) {
	conns := make([]net.Conn, 0, o.Conns)
	for len(conns) < o.Conns {
		conn, err := net.DialTimeout("tcp", o.Addr, verifyLimit)
		if err != nil {
			return conns, fmt.Errorf("connection %d of %d: %w", len(conns)+1, o.Conns, err)
		}
		conns = append(conns, conn)
	}
	return conns, nil
}

// ask sends the request to sleep for about d.
func (o sleeperOptions) ask(conn net.Conn, d time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(d + verifyLimit)); err != nil {
		return err
	}
	ms := max(d.Round(time.Millisecond).Milliseconds(), 0)
	_, err := io.WriteString(conn, "GET "+o.Path+"?ms="+strconv.FormatInt(ms, 10)+" HTTP/1.1\r\nHost: "+o.Addr+"\r\n\r\n")
	return err
}

// slept is a server's answer: how late the handler woke, and how many slept just before, itself included.
type slept struct {
	late   time.Duration
	asleep int
}

func readSleep(in *bufio.Reader, conn net.Conn) (slept, error) {
	in.Reset(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return slept{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return slept{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return slept{}, fmt.Errorf("status %s: %.100q", resp.Status, body)
	}
	return parseSleep(string(body))
}

// parseSleep reads "MICROSECONDS SLEEPERS".
func parseSleep(body string) (slept, error) {
	var us int64
	var s slept
	if n, err := fmt.Sscanf(body+"\n", "%d %d\n", &us, &s.asleep); n != 2 || err != nil {
		return slept{}, fmt.Errorf("answer %.60q, want how late it is and how many slept", body)
	}
	s.late = time.Duration(us) * time.Microsecond
	return s, nil
}
