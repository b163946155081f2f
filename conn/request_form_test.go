package conn_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

func TestUrlencodedForm(t *testing.T) {
	rows := []struct{ kind, target, body, want string }{
		{"application/x-www-form-urlencoded", "/?q=1&a=query", "a=1&b=2+3&a=%3D&empty=",
			"a=1&a=%3D&a=query&b=2+3&empty=&q=1"},
		{"Application/X-WWW-Form-Urlencoded; charset=utf-8", "/", "a=1", "a=1"},
		{"text/plain", "/?q=1", "a=1", "q=1"},
		{"", "/?q=1", "", "q=1"},
		{"application/x-www-form-urlencoded", "/", "a=%zz", "error"},
		{"application/x-www-form-urlencoded", "/", "a=" + strings.Repeat("1", 2_000_000),
			"a=" + strings.Repeat("1", 2_000_000)},
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			form, err := req.Form()
			if again, _ := req.Form(); err == nil && len(again) != len(form) {
				return 500
			}
			if err != nil {
				w.WriteString("error")
				return 200
			}
			w.SetBody([]byte(form.Encode()))
			return 200
		}})
		c := s.Dial()
		for _, row := range rows {
			send(t, c,
				fmt.Sprintf(
					"POST %s HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", row.target,
					row.kind, len(row.body), row.body))
			if a := c.Answer("POST"); a.Text != row.want {
				t.Errorf("%s %s: %q, want %q", row.kind, clip(row.body), clip(a.Text),
					clip(row.want))
			}
		}
	}, plain, overTLS)
}

func TestFormOfAnUnboundedBody(t *testing.T) {
	s := start(t, plain, conn.Config{Limits: conn.Limits{MaxBodySize: -1},
		Handler: func(req *conn.Request, w *conn.Response) int {
			if _, err := req.Form(); !errors.Is(err, conn.ErrBodyTooLarge) {
				t.Errorf("Form: %v", err)
			}
			return 200
		}})
	c := s.Dial()
	body := strings.Repeat("a=1&", 11<<18)
	go io.WriteString(c,
		fmt.Sprintf(
			"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: "+
				"application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	if a := c.Answer("POST"); a.StatusCode != 413 {
		t.Errorf("%v", a.Response)
	}
}

// upload is a multipart request with one field and one file.
func upload(file []byte) string {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("field", "value")
	part, _ := w.CreateFormFile("file", "name.bin")
	_, _ = part.Write(file)
	_ = w.Close()
	return fmt.Sprintf(
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		w.FormDataContentType(), b.Len(), b.Bytes())
}

// TestMultipartForm also looks at the temporary files: there during the request, gone after it,
// however it ended.
func TestMultipartForm(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	files := func() int {
		entries := must.Get(os.ReadDir(dir))(t)
		return len(entries)
	}
	run(t, func(t *testing.T, m mode) {
		waiting := make(chan struct{}, 1)
		var h conn.Handler = func(req *conn.Request, w *conn.Response) int {
			form, err := req.MultipartForm(10 << 10)
			if err != nil {
				return 400
			}
			during := files()
			f, err := form.File["file"][0].Open()
			if err != nil {
				return 500
			}
			defer f.Close()
			got, err := io.ReadAll(f)
			if err != nil {
				return 500
			}
			fmt.Fprintf(w, "%s %d %v temporary=%v", form.Value["field"], len(got),
				bytes.Equal(got, noise()[:len(got)]), during > 0)
			switch req.RawQuery() {
			case "panic":
				panic("now")
			case "wait":
				waiting <- struct{}{}
				_ = req.Sleep(time.Minute)
			}
			return 200
		}
		s := start(t, m, conn.Config{Handler: h})
		s.Panics.Expect()
		for _, size := range []int{10, 1000, 1 << 20} {
			c := s.Dial()
			a := c.Do("POST", upload(noise()[:size]))
			if want := fmt.Sprintf("[value] %d true temporary=%v", size,
				size > 20<<10); a.Text != want {
				t.Errorf("%d bytes: %s %q, want %q", size, a.Status, a.Text, want)
			}
			c.Do("GET", get) // not a form; and the request before it has ended
			if n := files(); n > 0 {
				t.Errorf("%d bytes: %d temporary files left", size, n)
			}
			c.Close()
		}
		raw := upload(noise()[:1<<20])

		// Cut in the middle, by a FIN and by a reset; a panic; a client that leaves.
		c := s.Dial()
		send(t, c, raw[:len(raw)/2])
		c.CloseWrite()
		if a := parse(t, rest(t, c.R), "POST")[0]; a.StatusCode != 400 {
			t.Errorf("cut: %s", a.Status)
		}
		c.Close()
		if !m.TLS {
			c = s.Dial()
			send(t, c, raw[:len(raw)/2])
			c.Reset()
		}
		c = s.Dial()
		c.Do("POST", strings.Replace(raw, "/", "/?panic", 1))
		c.Close()
		c = s.Dial()
		send(t, c, strings.Replace(raw, "/", "/?wait", 1))
		<-waiting
		c.Close()
		s.Idle()
		if n := files(); n > 0 {
			t.Errorf("%d temporary files left by requests that failed", n)
		}

		// A stop that does not wait, for a handler and for a client in the middle of its upload.
		send(t, s.Dial(), strings.Replace(raw, "/", "/?wait", 1))
		send(t, s.Dial(), raw[:len(raw)/2])
		<-waiting
		s.Settle()
		s.Stop(0)
		if n := files(); n > 0 {
			t.Errorf("%d temporary files left by the stop", n)
		}
	}, plain, direct, overTLS)
}

func TestCookies(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			for _, c := range req.Cookies() {
				fmt.Fprintf(w, "%s=%s;", c.Name, c.Value)
			}
			first, ok := req.Cookie("a")
			_, none := req.Cookie("none")
			fmt.Fprint(w, " ", first, ok, none)
			return 200
		}})
		c := s.Dial()
		for fields, want := range map[string]string{
			"":                      " false false",
			"Cookie: a=1; b=2; a=3": "a=1;b=2;a=3; 1true false",
			"cookie: c=\"x y\"\r\nCookie: a=b=c; bad name=1; a=2": "c=x y;a=b=c;a=2; b=ctrue false",
		} {
			if fields != "" {
				fields += "\r\n"
			}
			a := c.Do("GET", "GET / HTTP/1.1\r\nHost: a\r\n"+fields+"\r\n")
			if diff := cmp.Diff(want, a.Text); diff != "" {
				t.Errorf("%q: %s", fields, diff)
			}
		}
	}, plain)
}

// TestMultipartFormOffTheLoop: while the parts of a large form are copied, the loop serves others,
// and so it does where the client has sent its FIN behind the form.
func TestMultipartFormOffTheLoop(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Limits: conn.Limits{MaxBodySize: -1},
			Handler: func(req *conn.Request, w *conn.Response) int {
				if req.Method() == "GET" {
					return hello(req, w)
				}
				form, err := req.MultipartForm(1 << 20)
				if err != nil {
					w.WriteString(err.Error())
					return 500
				}
				fmt.Fprint(w, form.File["file"][0].Size)
				return 200
			}})
		raw := upload(bytes.Repeat(noise(), 8))
		for _, fin := range []bool{false, true} {
			c := s.Dial()
			var sent sync.WaitGroup
			sent.Go(func() {
				_, _ = io.WriteString(c.Conn, raw)
				if fin {
					c.CloseWrite()
				}
			})
			var answered atomic.Bool // this test may have slept through the whole of it
			sent.Go(func() { _, _ = c.R.Peek(1); answered.Store(true) })
			s.Settled("a function off the loop", func(l *loop.Loop) bool {
				return l.Stats().Calls > 0 || answered.Load()
			})
			if a := s.Dial().Do("GET", get); a.Text != "Hello, world!" {
				t.Errorf("beside the form: %s", a.Status)
			}
			sent.Wait()
			if a := c.Answer("POST"); a.StatusCode != 200 || a.Text != fmt.Sprint(8*len(noise())) {
				t.Errorf("fin %v: %s %q", fin, a.Status, a.Text)
			}
		}
	}, direct)
}

// TestMultipartFormWithinMaxSpool: the files of a form count for max_spool as the body does that
// they are made of.
func TestMultipartFormWithinMaxSpool(t *testing.T) {
	defer conn.SetLingerTime(100*time.Millisecond, 100*time.Millisecond)()
	t.Setenv("TMPDIR", t.TempDir())
	raw := upload(noise()[:100_000])
	handler := func(req *conn.Request, w *conn.Response) int {
		if _, err := req.MultipartForm(1000); err != nil {
			return 418 // which is not what is sent
		}
		return 200
	}
	run(t, func(t *testing.T, m mode) {
		for limit, want := range map[int64]int{150_000: 503, 250_000: 200} {
			s := start(t, m, conn.Config{Limits: conn.Limits{MaxSpool: conn.Size(limit)}, Handler: handler})
			c := s.Dial()
			if a := c.Do("POST", raw); a.StatusCode != want {
				t.Errorf("limit %d: %s", limit, a.Status)
			}
			c.Close()
			s.Settled("it is given back", func(*loop.Loop) bool { return s.Server.Spooled() == 0 })
		}
	}, plain, direct)
}
