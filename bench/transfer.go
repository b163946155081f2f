package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// transferOptions are what the client of one large body is told.
type transferOptions struct {
	Addr   string
	Path   string // ?bytes=N is added for a download
	Bytes  int64
	Upload bool
	PIDs   []int // the server
}

// transferReport is what it found.
type transferReport struct {
	Took         time.Duration
	Before, Most int64 // anonymous memory of the server: before, and the most that was seen meanwhile
	CPU          cpuUsage
}

// transferLimit ends a transfer that stands still.
const transferLimit = 2 * time.Minute

func runTransfer(ctx context.Context, env *environment, w work, srv *server) (transferReport, error) {
	options := transferOptions{Addr: srv.addr, Path: w.path, Bytes: w.size, Upload: w.upload, PIDs: srv.pids}
	var report transferReport
	err := runClient(ctx, env, w, "transfer", options, &report, transferLimit)
	return report, err
}

// loadTransfer moves one body and looks at the server's memory all the while. A small one goes before it: what a server
// allocates once is to be there.
func loadTransfer(o transferOptions) (report transferReport, err error) {
	const small = 1 << 20
	for range 2 {
		if err := o.move(small); err != nil {
			return report, fmt.Errorf("%d bytes: %w", small, err)
		}
	}
	if report.Before, err = anonymousMemory(o.PIDs); err != nil {
		return report, err
	}
	before, err := readCPU(o.PIDs)
	if err != nil {
		return report, err
	}
	stop, watched := make(chan struct{}), sync.WaitGroup{}
	watched.Go(func() {
		every := time.NewTicker(10 * time.Millisecond)
		defer every.Stop()
		for {
			if now, err := anonymousMemory(o.PIDs); err == nil {
				report.Most = max(report.Most, now)
			}
			select {
			case <-stop:
				return
			case <-every.C:
			}
		}
	})
	start := time.Now()
	err = o.move(o.Bytes)
	report.Took = time.Since(start)
	close(stop)
	watched.Wait()
	if err != nil {
		return report, err
	}
	after, err := readCPU(o.PIDs)
	report.CPU = after.since(before)
	return report, err
}

// move moves a body of n bytes, on a connection of its own.
func (o transferOptions) move(n int64) error {
	conn, err := net.DialTimeout("tcp", o.Addr, verifyLimit)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(transferLimit)); err != nil {
		return err
	}
	if o.Upload {
		return o.upload(conn, n)
	}
	return o.download(conn, n)
}

// transferPiece is what a body repeats, every 16 bytes: whatever comes can be compared from where it is in those.
var transferPiece = bytes.Repeat([]byte("0123456789abcdef"), 16<<10)

func (o transferOptions) download(conn net.Conn, n int64) error {
	if _, err := fmt.Fprintf(conn, "GET %s?bytes=%d HTTP/1.1\r\nHost: %s\r\n\r\n", o.Path, n, o.Addr); err != nil {
		return err
	}
	in := bufio.NewReaderSize(conn, len(transferPiece))
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ContentLength != n {
		return fmt.Errorf("status %s, Content-Length %d", resp.Status, resp.ContentLength)
	}
	buf := make([]byte, len(transferPiece)-16)
	for came := int64(0); ; {
		k, err := resp.Body.Read(buf)
		at := int(came % 16)
		if !bytes.Equal(buf[:k], transferPiece[at:at+k]) {
			return fmt.Errorf("wrong bytes after %d", came)
		}
		came += int64(k)
		switch {
		case err == io.EOF && came == n:
			return nil
		case err != nil:
			return fmt.Errorf("after %d bytes: %w", came, err)
		}
	}
}

func (o transferOptions) upload(conn net.Conn, n int64) error {
	if _, err := fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", o.Path, o.Addr, n); err != nil {
		return err
	}
	for left := n; left > 0; {
		k, err := conn.Write(transferPiece[:min(left, int64(len(transferPiece)))])
		if left -= int64(k); err != nil {
			return fmt.Errorf("with %d bytes left: %w", left, err)
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if got, err := strconv.ParseInt(strings.TrimSpace(string(body)), 10, 64); resp.StatusCode != http.StatusOK || err != nil || got != n {
		return fmt.Errorf("status %s, and %.100q bytes have come", resp.Status, body)
	}
	return nil
}

func verifyTransfer(addr string, w work) error {
	if w.size < 1 {
		return errors.New("nothing to move")
	}
	return transferOptions{Addr: addr, Path: w.path, Upload: w.upload}.move(100_000)
}
