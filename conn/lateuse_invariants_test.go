//go:build invariants

package conn_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// panics returns what f panics with.
func panics(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// TestLateUse: methods that a goroutine may well call for a line of the log panic once the request
// is over.
func TestLateUse(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		var late *conn.Request
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			late = req
			return resp.Text(200, req.Method()+req.Path()+req.PathValue("id")+req.User())
		}})
		s.Dial().Do("GET", "GET /path HTTP/1.1\r\nHost: a\r\n\r\n")
		s.Settle()
		s.On(func(*loop.Loop) {
			for name, use := range map[string]func(){
				"Method":        func() { late.Method() },
				"Path":          func() { late.Path() },
				"PathValue":     func() { late.PathValue("id") },
				"PathValueView": func() { late.Layer().PathValueView("id") },
				"User":          func() { late.User() },
			} {
				if p, _ := panics(use).(string); !strings.Contains(p, "after its handler has returned") {
					t.Errorf("%s: %q", name, p)
				}
			}
		})
	}, plain, direct)
}

// TestGoroutineWrites: a goroutine must not use the Response while the handler waits for something
// else. The handler's own threads may.
func TestGoroutineWrites(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		waiting, release := make(chan *conn.Response, 1), make(chan struct{})
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			req.Go(func(*loop.Thread) error {
				_, err := resp.WriteString("thread ")
				return err
			})
			waiting <- resp
			if _, err := req.AwaitAny(-1, loop.FromChan(release)); err != nil {
				t.Error(err)
			}
			_, _ = resp.WriteString("handler")
			return 200
		}})
		c := s.Dial()
		c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		resp := <-waiting
		s.Settle() // the handler waits
		for name, use := range map[string]func(){
			"Write":       func() { _, _ = resp.Write([]byte("goroutine")) },
			"WriteString": func() { _, _ = resp.WriteString("goroutine") },
			"Flush":       func() { _ = resp.Flush() },
			"SetStatus":   func() { resp.SetStatus(500) },
			"SetBody":     func() { resp.SetBody([]byte("goroutine")) },
			"Header":      func() { resp.Header().Set("X-Goroutine", "1") },
			"SetCookie":   func() { _ = resp.SetCookie(&http.Cookie{Name: "a", Value: "b"}) },
			"JSON":        func() { resp.JSON(500, 1) },
			"SetMaxRate":  func() { resp.SetMaxRate(1) },
			"Clear":       func() { resp.Layer().Clear() },
			"Abort":       func() { resp.Abort() },
			"AddTrailer":  func() { resp.AddTrailer("X-Goroutine", "1") },
			"Inform":      func() { _ = resp.Inform(103, nil) },
			"Relay":       func() { resp.Layer().Relay(500, "") },
			"DropBody":    func() { resp.Layer().DropBody() },
			"BeforeHead":  func() { resp.Layer().BeforeHead(func(*conn.Request, *conn.Response, int) {}) },
		} {
			p, _ := panics(use).(string)
			if !strings.Contains(p, "goroutine that is not one of its threads") {
				t.Errorf("%s: %q", name, p)
			}
		}
		close(release)
		if a := c.Answer("GET"); a.StatusCode != 200 || a.Text != "thread handler" {
			t.Errorf("got %d %q", a.StatusCode, a.Text)
		}
	}, plain, direct)
}
