package conn_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lwango/lwango/conn"
)

// TestPhases: what a handler may still do with its response depends on how far that is. Each row
// brings a response into a phase; then the handler does everything that there is to do with one.
func TestPhases(t *testing.T) {
	const given = "given up by its handler"
	rows := []struct {
		name    string
		reach   func(w *conn.Response)
		refused string // the error of Write, Flush and Hijack; empty: they are allowed
		sent    bool
		logged  string // of SetStatus and SetBody
		late    bool   // another body is closed at once, and not sent
	}{
		{"open", func(*conn.Response) {}, "", false, "", false},
		{"streamed", func(w *conn.Response) { w.Flush() }, "", true,
			"status ignored, response body set after", true},
		{"aborted, nothing sent", func(w *conn.Response) { w.Abort() }, given, false, "", true},
		{"aborted, head sent", func(w *conn.Response) { w.Flush(); w.Abort() }, given, true,
			"status ignored", true},
		{"hijacked", func(w *conn.Response) {
			if c, _, err := w.Hijack(); err == nil {
				io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			}
		}, http.ErrHijacked.Error(), true, "status ignored", true},
		{"complete", nil, conn.ErrComplete.Error(), true, "status ignored", true},
	}
	run(t, func(t *testing.T, m mode) {
		for _, row := range rows {
			var problems []string
			check := func(w *conn.Response) {
				problem := func(format string, args ...any) {
					problems = append(problems, fmt.Sprintf(format, args...))
				}
				if w.HeadSent() != row.sent {
					problem("HeadSent: %v", w.HeadSent())
				}
				refused := func(err error) bool {
					return err != nil && strings.Contains(err.Error(), row.refused)
				}
				n, err := w.Write([]byte("x"))
				if row.refused == "" {
					if err != nil || n != 1 {
						problem("Write: %d, %v", n, err)
					}
				} else {
					if !refused(err) || n != 0 {
						problem("Write: %d, %v", n, err)
					}
					if err := w.Flush(); !refused(err) {
						problem("Flush: %v", err)
					}
					if _, _, err := w.Hijack(); !refused(err) {
						problem("Hijack: %v", err)
					}
				}
				w.SetStatus(299)
				closed := 0
				w.SetBodyReader(closer{iotest.ErrReader(io.EOF), func() { closed++ }}, 0)
				if late := closed == 1; late != row.late {
					problem("SetBodyReader: closed %d times", closed)
				}
			}
			s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
				if row.reach == nil {
					req.Defer(func() { check(w) })
					return 200
				}
				row.reach(w)
				check(w)
				return 0
			}})
			c := s.Dial()
			send(t, c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			_, _ = io.ReadAll(c)
			s.Stop(0)
			if len(problems) > 0 {
				t.Errorf("%s: %s", row.name, strings.Join(problems, "; "))
			}
			for _, line := range strings.Split(row.logged, ", ") {
				if log := s.Log.String(); !strings.Contains(log, line) || line == "" && log != "" {
					t.Errorf("%s: logged %q, want %q", row.name, log, line)
				}
			}
		}
	}, plain, direct)
}

type closer struct {
	io.Reader
	close func()
}

func (c closer) Close() error { c.close(); return nil }
