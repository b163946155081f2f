package conn_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
)

// TestSetStatus: the status that was set goes out with a head that does not wait for the handler,
// and the one that is returned with any other.
func TestSetStatus(t *testing.T) {
	large := strings.Repeat("x", 40<<10)
	rows := []struct {
		name   string
		h      func(w *conn.Response) int
		status int
		text   string // "page": the error page
		logged string
	}{
		{"much written",
			func(w *conn.Response) int { w.SetStatus(404); w.WriteString(large); return 404 }, 404,
			large, ""},
		{"returns nothing",
			func(w *conn.Response) int { w.SetStatus(404); w.WriteString(large); return 0 }, 404,
			large, ""},
		{"flushed",
			func(w *conn.Response) int {
				w.SetStatus(201)
				w.Flush()
				w.WriteString("x")
				return 201
			}, 201, "x", ""},
		{"the last one counts",
			func(w *conn.Response) int { w.SetStatus(201); w.SetStatus(202); w.Flush(); return 0 },
			202, "", ""},
		{"another is returned",
			func(w *conn.Response) int { w.SetStatus(404); w.WriteString(large); return 500 }, 404,
			large, "status ignored"},
		{"too late", func(w *conn.Response) int { w.Flush(); w.SetStatus(404); return 0 }, 200, "",
			"status ignored"},
		{"late, but the same", func(w *conn.Response) int { w.Flush(); w.SetStatus(200); return 0 },
			200, "", ""},
		{"nothing sent, another returned",
			func(w *conn.Response) int { w.SetStatus(404); w.WriteString("x"); return 201 }, 201,
			"x", ""},
		{"nothing sent, none returned",
			func(w *conn.Response) int { w.SetStatus(404); w.WriteString("x"); return 0 }, 404, "x",
			""},
		{"nothing sent, an empty body", func(w *conn.Response) int { w.SetStatus(404); return 0 },
			404, "page", ""},
		{"no content", func(w *conn.Response) int { w.SetStatus(204); w.Flush(); return 204 }, 204,
			"", ""},
		{"interim", func(w *conn.Response) int { w.SetStatus(103); w.Flush(); return 0 }, 500, "",
			"no final status"},
		{"invalid",
			func(w *conn.Response) int { w.SetStatus(1000); w.WriteString(large); return 500 }, 500,
			large, "no final status"},
		{"negative", func(w *conn.Response) int { w.SetStatus(-1); return 0 }, 500, "page",
			"no final status"},
		{"cleared", func(w *conn.Response) int {
			w.SetStatus(404)
			w.Layer().Clear()
			w.Flush()
			return 0
		},
			200, "", ""},
		{"panic", func(w *conn.Response) int { w.SetStatus(404); panic("x") }, 500, "page",
			"panic"},
	}
	run(t, func(t *testing.T, m mode) {
		for _, row := range rows {
			s := start(t, m, conn.Config{Handler: func(_ *conn.Request, w *conn.Response) int {
				return row.h(w)
			}})
			if row.name == "panic" {
				s.Panics.Expect()
			}
			c := s.Dial()
			a := c.Do("GET", get)
			if row.text == "page" && !strings.Contains(a.Text, "<html") ||
				row.text != "page" && a.Text != row.text || a.StatusCode != row.status {
				t.Errorf("%s: %s %q", row.name, a.Status, clip(a.Text))
			}
			if !a.Close { // the next answer knows nothing of it
				c.Do("GET", get)
			}
			s.Stop(0)
			if log := s.Log.String(); row.logged == "" && log != "" ||
				!strings.Contains(log, row.logged) {
				t.Errorf("%s: logged %q", row.name, log)
			}
		}
	}, plain, direct)
}

// TestSetStatusBeforeAnotherHandler: what a Handler has set in front does not stand in the way of
// one that it calls.
func TestSetStatusBeforeAnotherHandler(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		h := mount(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(418)
			io.WriteString(w, "tea")
		}))
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			w.SetStatus(404)
			return h(req, w)
		}})
		if a := s.Dial().Do("GET", get); a.StatusCode != 418 || a.Text != "tea" {
			t.Errorf("%s %q", a.Status, a.Text)
		}
	})
}

// TestOwnErrorOfABadBody: an error that a handler reports with a body of its own goes out instead
// of the error page.
func TestOwnErrorOfABadBody(t *testing.T) {
	own := func(status int, answer string) conn.Handler {
		return func(req *conn.Request, w *conn.Response) int {
			if _, err := io.ReadAll(req.Body()); err != nil {
				w.Header().Set("Content-Type", "application/json")
				w.WriteString(answer)
				return status
			}
			return 200
		}
	}
	const answer = `{"error": "too large"}`
	h := byPath(map[string]conn.Handler{
		"/own": own(422, answer),
		"/set": func(req *conn.Request, w *conn.Response) int {
			_, _ = io.ReadAll(req.Body())
			w.SetBody([]byte(answer))
			return 400
		},
		"/reader": func(req *conn.Request, w *conn.Response) int {
			_, _ = io.ReadAll(req.Body())
			w.SetBodyReader(strings.NewReader(answer), -1)
			return 400
		},
		"/itself": func(req *conn.Request, w *conn.Response) int {
			w.SetBodyReader(req.Body(), -1)
			return 400
		},
		"/empty":  own(400, ""),
		"/unread": own(200, "fine"), // it has not noticed
	})
	tooLarge := " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n" +
		strings.Repeat("b", 64) + "\r\n0\r\n\r\n"
	bad := " HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nwhat\r\n"
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: h, Limits: conn.Limits{MaxBodySize: 20}})
		for _, row := range []struct {
			request string
			status  int
			own     bool
		}{
			{"/own" + tooLarge, 422, true},
			{"/own" + bad, 422, true},
			{"/set" + tooLarge, 400, true},
			{"/reader" + tooLarge, 400, true},
			{"/itself" + tooLarge, 413, false},
			{"/empty" + tooLarge, 413, false},
			{"/unread" + tooLarge, 413, false},
			{"/unread" + bad, 400, false},
		} {
			if invariants.Enabled && strings.HasPrefix(row.request, "/itself") {
				continue // the first piece, shortened on purpose, may be one that is not too large
			}
			a := parse(t, s.Exchange("POST "+row.request), "POST")[0]
			if a.StatusCode != row.status || (a.Text == answer) != row.own || !a.Close {
				t.Errorf("%s: %s %q", row.request[:7], a.Status, a.Text)
			}
		}
	}, http1...)
}
