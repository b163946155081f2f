package conn_test

import (
	"fmt"
	"io"
	"mime/multipart"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
)

// TestParts: what came in many pieces is read part by part, and the rest of a part is skipped.
func TestParts(t *testing.T) {
	var b strings.Builder
	w := multipart.NewWriter(&b)
	_ = w.WriteField("field", "value")
	for _, size := range []int{0, 1, 5000, 300_000} {
		part, _ := w.CreateFormFile("file", fmt.Sprint(size, ".bin"))
		_, _ = part.Write(noise()[:size])
	}
	_ = w.WriteField("last", "one")
	_ = w.Close()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			n := 0
			for part, err := range req.Parts() {
				if err != nil {
					return resp.Error(400, err)
				}
				if n++; req.RawQuery() == "skip" && n == 2 || req.RawQuery() == "leave" && n == 5 {
					_, _ = part.Read(make([]byte, 10))
					if req.RawQuery() == "leave" {
						break
					}
					continue
				}
				text, err := io.ReadAll(part)
				if err != nil {
					return resp.Error(400, err)
				}
				if name := part.FileName(); name == "" {
					fmt.Fprintf(resp, "%s=%s ", part.FormName(), text)
				} else if string(text) != string(noise()[:len(text)]) {
					fmt.Fprintf(resp, "%s is wrong ", name)
				} else {
					fmt.Fprintf(resp, "%s=%d ", name, len(text))
				}
			}
			return 200
		}})
		const all = "field=value 0.bin=0 1.bin=1 5000.bin=5000 300000.bin=300000 last=one "
		for _, row := range []struct{ query, want string }{
			{"", all},
			{"skip", strings.Replace(all, "0.bin=0 ", "", 1)},
			{"leave", "field=value 0.bin=0 1.bin=1 5000.bin=5000 "},
		} {
			for _, raw := range []string{withBody(w.FormDataContentType(), b.String()),
				inChunks(w.FormDataContentType(), b.String())} {
				a := s.Dial().Do("POST", strings.Replace(raw, "/", "/?"+row.query, 1))
				if a.StatusCode != 200 || a.Text != row.want {
					t.Errorf("%s: %s %q", row.query, a.Status, clip(a.Text))
				}
			}
		}
		for _, row := range []struct {
			kind, body string
			status     int
		}{
			{"multipart/mixed; boundary=x", "--x\r\n\r\n\r\n--x--", 200},
			{"multipart/mixed", "--x--", 400},
			{"text/plain; boundary=x", "--x--", 400},
			{"multipart/mixed; boundary=x", "", 400},
			{"multipart/mixed; boundary=x", "--x\r\n\r\nno end", 400},
			{"multipart/mixed; boundary=x", "--x\r\nno field\r\n\r\n--x--", 400},
		} {
			if a := s.Dial().Do("POST", withBody(row.kind, row.body)); a.StatusCode != row.status {
				t.Errorf("%s, %q: %s %q", row.kind, row.body, a.Status, a.Text)
			}
		}
	}, plain, direct, overTLS)
}

// TestPartsThatAreLeft: what is wrong further on in the body does not concern a handler that goes
// no further.
func TestPartsThatAreLeft(t *testing.T) {
	defer conn.SetLingerTime(100*time.Millisecond, 100*time.Millisecond)()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			req.Body().SetLimit(20_000)
			for part, err := range req.Parts() {
				if err != nil {
					return resp.Error(400, err)
				}
				text, _ := io.ReadAll(part)
				return resp.Text(200, string(text))
			}
			return 204
		}})
		const kind = "multipart/mixed; boundary=x"
		long := "--x\r\n\r\nhello\r\n--x\r\n\r\n" + strings.Repeat("a", 25_000)
		if a := s.Dial().Do("POST", inChunks(kind, long)); a.StatusCode != 200 || a.Text != "hello" {
			t.Errorf("%s %q", a.Status, a.Text)
		}
	}, plain, direct, overTLS)
}

// TestPartsBeyondTheLimit: the limit of the body ends the parts, too.
func TestPartsBeyondTheLimit(t *testing.T) {
	defer conn.SetLingerTime(100*time.Millisecond, 100*time.Millisecond)()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			req.Body().SetLimit(100_000)
			for part, err := range req.Parts() {
				if err != nil {
					return resp.Error(400, err)
				}
				_, _ = io.Copy(io.Discard, part)
			}
			return 200
		}})
		raw := "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n30000\r\n--x\r\n\r\n" + strings.Repeat("a", 190_000)
		c := s.Dial()
		go io.WriteString(c, raw)
		if a := c.Answer("POST"); a.StatusCode != 413 {
			t.Errorf("%s %q", a.Status, a.Text)
		}
	}, direct)
}
