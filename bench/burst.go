package main

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// burstReport is how requests fared that all came at once, time after time.
type burstReport struct {
	bursts, failed int
	last           time.Duration // from a burst's begin to its last answer, on average
}

// measureBurst sends one request on each of w.conns connections at the same time. The application serves one at a time,
// and few may wait at its socket: what is counted is who gets anything but its answer.
func measureBurst(ctx context.Context, w work, s *server, duration time.Duration) (burstReport, error) {
	var report burstReport
	var took time.Duration
	for start := time.Now(); report.bursts == 0 || time.Since(start) < duration; report.bursts++ {
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		conns := make([]net.Conn, 0, w.conns)
		for len(conns) < w.conns {
			conn, err := net.DialTimeout("tcp", s.addr, verifyLimit)
			if err != nil {
				closeAll(conns)
				return report, err
			}
			conns = append(conns, conn)
		}
		var failed atomic.Int64
		var asking sync.WaitGroup
		begin := time.Now()
		for _, conn := range conns {
			asking.Go(func() {
				_ = conn.SetDeadline(begin.Add(verifyLimit))
				_, err := conn.Write(w.request(s.addr))
				if err == nil {
					err = verifyAnswer(bufio.NewReader(conn), w)
				}
				if err != nil {
					failed.Add(1)
				}
			})
		}
		asking.Wait()
		took += time.Since(begin)
		report.failed += int(failed.Load())
		closeAll(conns)
	}
	report.last = took / time.Duration(report.bursts)
	return report, nil
}
