package conn_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
)

type item struct {
	Name  string   `json:"name"`
	Price int      `json:"price"`
	Tags  []string `json:"tags,omitempty"`
}

// noJSON cannot be encoded.
type noJSON struct{}

func (noJSON) MarshalJSON() ([]byte, error) { return nil, errors.New("a secret of the server") }

var page = template.Must(
	template.New("page").Parse("<p>{{.Name}}</p>{{if eq .Price 13}}{{.None}}{{end}}"))

func TestAnswers(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	rows := []struct {
		why    string
		h      conn.Handler
		status int
		fields map[string]string
		text   string // empty: none; !: an error page
	}{
		{"JSON", func(req *conn.Request, resp *conn.Response) int {
			return resp.JSON(201, item{Name: "<tea>", Price: 7})
		}, 201, map[string]string{"Content-Type": "application/json", "Content-Length": "37"},
			`{"name":"\u003ctea\u003e","price":7}` + "\n"},
		{"a type that was set stays", func(req *conn.Request, resp *conn.Response) int {
			resp.Header().Set("Content-Type", "application/problem+json")
			return resp.JSON(422, item{})
		}, 422, map[string]string{"Content-Type": "application/problem+json"},
			`{"name":"","price":0}` + "\n"},
		{"JSON takes the place of what was written", func(req *conn.Request, resp *conn.Response) int {
			resp.WriteString("before")
			return resp.JSON(0, nil)
		}, 200, nil, "null\n"},
		{"long JSON goes out at once, with its length", func(req *conn.Request, resp *conn.Response) int {
			status := resp.JSON(203, long)
			if !resp.HeadSent() {
				return 500
			}
			return status
		}, 203, map[string]string{"Content-Length": "100003"}, `"` + long + "\"\n"},
		{"what cannot be encoded", func(req *conn.Request, resp *conn.Response) int {
			resp.Header().Set("X-Layer", "stays")
			return resp.JSON(200, []any{long, noJSON{}})
		}, 500, map[string]string{"Content-Type": "text/html; charset=utf-8", "X-Layer": "stays"}, "!"},
		{"a bad field behind long JSON", func(req *conn.Request, resp *conn.Response) int {
			resp.Header().Set("X-Bad", "a\nb")
			return resp.JSON(200, long)
		}, 500, nil, "!"},
		{"text", func(req *conn.Request, resp *conn.Response) int {
			return resp.Text(404, "no such item")
		}, 404, map[string]string{"Content-Type": "text/plain; charset=utf-8"}, "no such item"},
		{"long text", func(req *conn.Request, resp *conn.Response) int {
			return resp.Text(200, long)
		}, 200, map[string]string{"Content-Length": "100000"}, long},
		{"page", func(req *conn.Request, resp *conn.Response) int {
			return resp.HTML(200, page, item{Name: "<script>"})
		}, 200, map[string]string{"Content-Type": "text/html; charset=utf-8"}, "<p>&lt;script&gt;</p>"},
		{"a long page", func(req *conn.Request, resp *conn.Response) int {
			return resp.HTML(200, page, item{Name: long})
		}, 200, map[string]string{"Content-Length": "100007"}, "<p>" + long + "</p>"},
		{"a page that fails in its middle", func(req *conn.Request, resp *conn.Response) int {
			return resp.HTML(200, page, item{Name: long, Price: 13})
		}, 500, nil, "!"},
		{"redirect", func(req *conn.Request, resp *conn.Response) int {
			return resp.Redirect(303, "/ä b\\c\r\nX: y?q=%20#z")
		}, 303, map[string]string{"Location": "/%C3%A4%20b%5Cc%0D%0AX:%20y?q=%20#z"}, ""},
		{"no status of a redirect", func(req *conn.Request, resp *conn.Response) int {
			return resp.Redirect(200, "/")
		}, 500, map[string]string{"Location": ""}, "!"},
		{"error of the client", func(req *conn.Request, resp *conn.Response) int {
			resp.Header().Set("Content-Type", "image/png")
			resp.WriteString("half of it")
			return resp.Error(409, errors.New("exists already"))
		}, 409, map[string]string{"Content-Type": "text/plain; charset=utf-8",
			"X-Content-Type-Options": "nosniff"}, "exists already\n"},
		{"error of the server", func(req *conn.Request, resp *conn.Response) int {
			return resp.Error(503, errors.New("a secret of the server"))
		}, 503, nil, "!"},
		{"no error", func(req *conn.Request, resp *conn.Response) int {
			return resp.Error(404, nil)
		}, 404, nil, "!"},
		{"an error without an error's status", func(req *conn.Request, resp *conn.Response) int {
			return resp.Error(200, errors.New("a secret of the server"))
		}, 500, nil, "!"},
		{"cookies", func(req *conn.Request, resp *conn.Response) int {
			ok := resp.SetCookie(&http.Cookie{Name: "a", Value: "1", HttpOnly: true})
			bad := resp.SetCookie(&http.Cookie{Name: "b", Value: "x\r\ny"})
			if ok != nil || bad == nil {
				return 500
			}
			return 204
		}, 204, map[string]string{"Set-Cookie": "a=1; HttpOnly"}, ""},
		{"Vary", func(req *conn.Request, resp *conn.Response) int {
			h := resp.Header()
			h.Vary("Accept", "Origin")
			h.Vary("accept", "Cookie")
			return resp.Text(200, strings.Join(h.Values("Vary"), ","))
		}, 200, nil, "Accept,Origin,Cookie"},
		{"Vary of all", func(req *conn.Request, resp *conn.Response) int {
			h := resp.Header()
			h.Vary("*")
			h.Vary("Accept")
			return resp.Text(200, strings.Join(h.Values("Vary"), ","))
		}, 200, nil, "*"},
	}
	run(t, func(t *testing.T, m mode) {
		handlers := map[string]conn.Handler{}
		for i, row := range rows {
			handlers[fmt.Sprint("/", i)] = row.h
		}
		s := start(t, m, conn.Config{Handler: byPath(handlers)})
		for i, row := range rows {
			for _, method := range []string{"GET", "HEAD"} {
				a := s.Request(fmt.Sprint(method, " /", i), nil, "")
				if a.StatusCode != row.status {
					t.Errorf("%s, %s: %s", row.why, method, a.Status)
				}
				for name, want := range row.fields {
					if got := a.Header.Get(name); got != want {
						t.Errorf("%s, %s: %s: %q, want %q", row.why, method, name, got, want)
					}
				}
				switch {
				case strings.Contains(a.Text, "secret"):
					t.Errorf("%s: %q", row.why, a.Text)
				case method == "HEAD" && a.Text != "",
					method == "GET" && row.text == "!" && !strings.HasPrefix(a.Text, "<!doctype"),
					method == "GET" && row.text != "!" && a.Text != row.text:
					t.Errorf("%s, %s: %q", row.why, method, clip(a.Text))
				}
			}
		}
	}, plain, direct, overTLS)
}

// TestAnswerTooLate: behind the head another body cuts the connection, and nothing is made of it.
func TestAnswerTooLate(t *testing.T) {
	for name, h := range map[string]conn.Handler{
		"JSON":  func(req *conn.Request, resp *conn.Response) int { return resp.JSON(200, 1) },
		"Text":  func(req *conn.Request, resp *conn.Response) int { return resp.Text(200, "1") },
		"HTML":  func(req *conn.Request, resp *conn.Response) int { return resp.HTML(200, page, item{}) },
		"Error": func(req *conn.Request, resp *conn.Response) int { return resp.Error(500, io.EOF) },
		"Redirect": func(req *conn.Request, resp *conn.Response) int {
			return resp.Redirect(302, "/")
		},
	} {
		s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			resp.WriteString("begun")
			_ = resp.Flush()
			return h(req, resp)
		}})
		got := s.Exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if !strings.HasSuffix(got, "\r\n5\r\nbegun\r\n") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestLongJSONToAClientThatLeaves: the thread that waits for room ends, and the next JSON of the
// same exchange is whole.
func TestLongJSONToAClientThatLeaves(t *testing.T) {
	long := strings.Repeat("0123456789", 2_000_000)
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		if req.Path() == "/long" {
			return resp.JSON(200, long)
		}
		return resp.JSON(200, item{Name: "tea"})
	}})
	for range 3 {
		c := s.DialSmall()
		send(t, c, "GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, err := io.ReadFull(c.R, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		c.Reset()
		s.Idle()
		if a := s.Request("GET /", nil, ""); a.Text != `{"name":"tea","price":0}`+"\n" {
			t.Errorf("%s %q", a.Status, a.Text)
		}
	}
}

// TestJSONCost: besides what encoding/json needs for the value, JSON allocates nothing.
func TestJSONCost(t *testing.T) {
	ci.Without(t, invariants.Enabled, "short reads and writes cost memory")
	v := &item{Name: "tea", Price: 7, Tags: []string{strings.Repeat("x", 1000)}}
	enc := json.NewEncoder(io.Discard)
	own := testing.AllocsPerRun(100, func() { _ = enc.Encode(v) })
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		return resp.JSON(200, v)
	}})
	if n := s.Allocs("GET / HTTP/1.1\r\nHost: a\r\n\r\n"); n > own {
		t.Errorf("%v allocations, of which %v are encoding/json's", n, own)
	}
}

func TestBasicAuth(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		name, password, ok := req.BasicAuth()
		return resp.Text(200, fmt.Sprintf("%q %q %v", name, password, ok))
	}})
	for field, want := range map[string]string{
		"":                        `"" "" false`,
		"Basic YW5uOnNlY3JldDp4":  `"ann" "secret:x" true`,
		"bAsic  YW5uOnNlY3JldDp4": `"ann" "secret:x" true`,
		"Basic YW5u":              `"" "" false`,
		"Basic YW5uOnNlY3JldDp4!": `"" "" false`,
		"Bearer YW5uOnNlY3JldDp4": `"" "" false`,
		"Basic Og==":              `"" "" true`,
	} {
		if a := s.Request("GET /", []string{"Authorization: " + field}, ""); a.Text != want {
			t.Errorf("%q: %s", field, a.Text)
		}
	}
}
