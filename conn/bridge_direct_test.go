package conn_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
)

// whileBlocked calls f while the loop does nothing at all. The time is for a failure only: what f
// would wait for otherwise is the loop.
func whileBlocked(s *site, f func()) {
	s.T.Helper()
	s.Settle() // the thread waits
	blocked, release := make(chan struct{}), make(chan struct{})
	_ = s.Loops.All[0].Post(func() {
		close(blocked)
		<-release
	})
	<-blocked
	late := time.AfterFunc(10*time.Second, func() {
		s.T.Error("it waits for the loop")
		close(release)
	})
	f()
	if late.Stop() {
		close(release)
	}
}

// later is a deadline that a handler sets, and that does not pass.
const later = time.Hour

// TestBridgeBulkDownIsDirect: a handler that fills the pipe sends from then on without the loop,
// until its deadline has passed.
func TestBridgeBulkDownIsDirect(t *testing.T) {
	ci.Without(t, invariants.Enabled, "a write that was cut short is for the thread to go on with")
	t.Parallel()
	const piece, first, all = 16 << 10, 48 << 10, 240 << 10
	run(t, func(t *testing.T, m mode) {
		next := make(chan struct{})
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/length" {
					w.Header().Set("Content-Length", fmt.Sprint(all))
				}
				rc := http.NewResponseController(w)
				if r.URL.Path == "/deadline" {
					_ = rc.SetWriteDeadline(time.Now().Add(later))
				}
				for n := 0; n < all; n += piece {
					if n == first {
						next <- struct{}{}
						<-next
					}
					_, _ = w.Write([]byte(strings.Repeat(string(rune('a'+n/piece)), piece)))
				}
				if r.URL.Path == "/deadline" {
					_ = rc.SetWriteDeadline(time.Now())
					_, err := w.Write(make([]byte, 256<<10)) // more than the pipe takes
					if !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("behind the deadline: %v", err)
					}
					next <- struct{}{}
				}
			}))})
		for _, path := range []string{"/length", "/chunks", "/deadline"} {
			c := s.Dial()
			send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			<-next
			resp, err := http.ReadResponse(c.R, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			whileBlocked(s, func() {
				next <- struct{}{}
				// All but what is left in the pipe, which nothing has filled again.
				_, err = io.CopyN(&got, resp.Body, all-64<<10)
			})
			if path == "/deadline" {
				<-next
				c.Close()
				continue
			}
			if err == nil {
				_, err = io.Copy(&got, resp.Body)
			}
			if err != nil || got.Len() != all {
				t.Fatalf("%s: %d bytes, %v", path, got.Len(), err)
			}
			for n := 0; n < all; n += piece {
				if part := got.String()[n : n+piece]; strings.Trim(part, string(rune('a'+n/piece))) != "" {
					t.Errorf("%s: the piece at %d is another", path, n)
				}
			}
			if a := c.Do("OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"); a.StatusCode != 200 {
				t.Errorf("%s: the next answer is %s", path, a.Status)
			}
		}
	}, plain, direct)
}

// TestBridgeBulkUpIsDirect: a handler whose client has sent much takes it without the loop, in
// large pieces and in small ones, until its deadline has passed.
func TestBridgeBulkUpIsDirect(t *testing.T) {
	ci.Without(t, invariants.Enabled, "a read that finds nothing is for the thread to go on with")
	t.Parallel()
	const first, all = 20 << 10, 52 << 10 // no more than any socket takes at once
	body := strings.Repeat("0123456789abcde\n", all/16)
	run(t, func(t *testing.T, m mode) {
		next := make(chan struct{})
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				got, n, err := make([]byte, all), 0, error(nil)
				piece := all
				if r.URL.Path == "/small" {
					piece = 1000
				}
				take := func(end int) {
					for more := 0; n < end && err == nil; n += more {
						more, err = r.Body.Read(got[n:min(end, n+piece)])
					}
				}
				rc := http.NewResponseController(w)
				if r.URL.Path == "/deadline" {
					_ = rc.SetReadDeadline(time.Now().Add(later))
				}
				take(first)
				next <- struct{}{}
				<-next
				if r.URL.Path == "/deadline" {
					take(all - 1<<10)
					next <- struct{}{}
					_ = rc.SetReadDeadline(time.Now())
					if n, err := r.Body.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("behind the deadline: %d bytes, %v", n, err)
					}
					return
				}
				take(all)
				next <- struct{}{}
				if string(got) != body {
					t.Errorf("%s: %d bytes, %v", r.URL.Path, n, err)
				}
				if n, err := r.Body.Read(got); n != 0 || err != io.EOF {
					t.Errorf("%s: %d bytes and %v behind the body", r.URL.Path, n, err)
				}
			}))})
		for _, path := range []string{"/large", "/small", "/deadline"} {
			for _, framed := range []string{
				fmt.Sprintf("Content-Length: %d\r\n\r\n%s", all, body),
				fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n",
					first+1, body[:first+1], all-first-1, body[first+1:]),
			} {
				c := s.Dial()
				send(t, c, "POST "+path+" HTTP/1.1\r\nHost: a\r\n"+framed)
				<-next
				whileBlocked(s, func() {
					next <- struct{}{}
					<-next
				})
				if a := c.Answer("POST"); a.StatusCode != 200 {
					t.Errorf("%s: %s", path, a.Status)
				}
				c.Close()
			}
		}
	}, plain, direct)
}
