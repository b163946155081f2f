package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// idleReport is what connections cost that have had one request each and are kept.
type idleReport struct {
	before, after int64 // resident bytes of the server
	cpu           cpuUsage
}

const (
	// warmConns are opened, used and closed before the first reading, so that what a server allocates once is there.
	warmConns = 256
	// aliveEvery is which of the idle connections must answer once more at the end: a server that had closed them
	// would look very frugal.
	aliveEvery = 50
)

// measureIdle opens the connections one after the other: their number is what is measured, not a rush of them.
func measureIdle(ctx context.Context, w work, s *server, settle time.Duration) (idleReport, error) {
	var report idleReport
	warm, err := openIdle(ctx, w, s.addr, min(warmConns, w.conns))
	closeAll(warm)
	if err != nil {
		return report, err
	}
	if err := sleep(ctx, settle); err != nil {
		return report, err
	}
	if report.before, err = residentMemory(s.pids); err != nil {
		return report, err
	}
	cpu, err := readCPU(s.pids)
	if err != nil {
		return report, err
	}

	conns, err := openIdle(ctx, w, s.addr, w.conns)
	defer closeAll(conns)
	if err != nil {
		return report, err
	}
	after, err := readCPU(s.pids)
	if err != nil {
		return report, err
	}
	report.cpu = after.since(cpu)
	if err := sleep(ctx, settle); err != nil {
		return report, err
	}
	if report.after, err = residentMemory(s.pids); err != nil {
		return report, err
	}
	for i := 0; i < len(conns); i += aliveEvery {
		if err := askOnce(conns[i], w, s.addr); err != nil {
			return report, fmt.Errorf("connection %d of %d after idling: %w", i+1, len(conns), err)
		}
	}
	return report, nil
}

// openIdle gives the connections that it opened, also with an error.
func openIdle(ctx context.Context, w work, addr string, n int) ([]net.Conn, error) {
	conns := make([]net.Conn, 0, n)
	for len(conns) < n {
		if ctx.Err() != nil {
			return conns, ctx.Err()
		}
		conn, err := net.DialTimeout("tcp", addr, verifyLimit)
		if err != nil {
			return conns, fmt.Errorf("connection %d of %d: %w", len(conns)+1, n, err)
		}
		conns = append(conns, conn)
		if err := askOnce(conn, w, addr); err != nil {
			return conns, fmt.Errorf("connection %d of %d: %w", len(conns), n, err)
		}
	}
	return conns, nil
}

func askOnce(conn net.Conn, w work, addr string) error {
	if err := conn.SetDeadline(time.Now().Add(verifyLimit)); err != nil {
		return err
	}
	if _, err := conn.Write(w.request(addr)); err != nil {
		return err
	}
	var buf [maxHead]byte
	var a answer
	for {
		n, err := conn.Read(buf[:])
		if err != nil {
			return err
		}
		switch ended, err := a.feed(buf[:n], int64(len(w.body))); {
		case err != nil:
			return err
		case ended == w.depth:
			return nil
		case ended > w.depth:
			return errors.New("more answers than requests")
		}
	}
}

// closeAll resets the connections: 10,000 of them in TIME-WAIT per server would use up the port numbers.
func closeAll(conns []net.Conn) {
	for _, conn := range conns {
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
