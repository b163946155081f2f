package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/lwangotest"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// upload is a file, or, without a name, a field.
type upload struct {
	name string
	body []byte
}

// write writes files into a form, and its end.
func write(form *multipart.Writer, files []upload) error {
	for _, f := range files {
		part, err := form.CreateFormField("note")
		if f.name != "" {
			part, err = form.CreateFormFile("file", f.name)
		}
		if err == nil {
			_, err = part.Write(f.body)
		}
		if err != nil {
			return err
		}
	}
	return form.Close()
}

// encode returns a form as a text, and its field Content-Type.
func encode(t *testing.T, files ...upload) (text, field string) {
	t.Helper()
	var b strings.Builder
	form := multipart.NewWriter(&b)
	must.Do(t, write(form, files))
	return b.String(), "Content-Type: " + form.FormDataContentType()
}

// post sends a form that write makes as it goes.
func post(t *testing.T, url string,
	write func(form *multipart.Writer) error) (status int, text string) {
	t.Helper()
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() { w.CloseWithError(write(form)) }()
	resp := must.Get(http.Post(url, form.FormDataContentType(), r))(t)
	return resp.StatusCode, must.Body(t, resp)
}

// serve serves the sample on a loop of the test.
func serve(t *testing.T, cfg conn.Config, atOnce int) (s *lwangotest.Server, dir string) {
	t.Helper()
	dir = t.TempDir()
	to := must.Get(openFolder(dir))(t)
	t.Cleanup(func() { to.dir.Close() }) // behind the server's end
	cfg.MaxBodySize = -1
	cfg.Handler = routes(to, 1<<20, atOnce)
	return lwangotest.StartConfig(t, cfg), dir
}

// watch follows an upload. What it is told comes on the channel, which ends with the stream.
func watch(t *testing.T, url, id string) <-chan progress {
	t.Helper()
	client := http.Client{Timeout: wait.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp := must.Get(client.Get(url + "/uploads/" + id + "/progress"))(t)
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s, %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	all := make(chan progress, 1000)
	go func() {
		defer close(all)
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var p progress
				if err := json.Unmarshal([]byte(data), &p); err != nil {
					t.Errorf("%q: %v", data, err)
				}
				all <- p
			}
		}
	}()
	return all
}

// last is how an upload has ended.
func last(t *testing.T, all <-chan progress) (p progress) {
	t.Helper()
	for next := range all {
		if next.Received < p.Received {
			t.Errorf("%d bytes received, and before that %d", next.Received, p.Received)
		}
		p = next
	}
	if p.End == "" {
		t.Errorf("the last event is %+v", p)
	}
	return p
}

// has fails the test unless the folder has these files and no others.
func has(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		if body, ok := files[e.Name()]; !ok {
			t.Errorf("%q is in the folder", e.Name())
		} else if got, err := os.ReadFile(filepath.Join(dir, e.Name())); !bytes.Equal(got, body) ||
			err != nil {
			t.Errorf("%q has %d bytes, %v, want %d others", e.Name(), len(got), err, len(body))
		}
	}
	if len(entries) != len(files) {
		t.Errorf("%d files, want %d", len(entries), len(files))
	}
}

// open counts the files in the folder that a process, such as "self", has open.
func open(pid any, dir string) (n int) {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%v/fd/*", pid))
	for _, fd := range fds {
		if to, _ := os.Readlink(fd); strings.HasPrefix(to, dir+"/") {
			n++
		}
	}
	return n
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// A client of net/http sends large files, which it makes as it goes, to the program, in one form
// with a field. Their sizes are below, at and above what is written at a time.
func TestUpload(t *testing.T) {
	dir := t.TempDir()
	s := program.Start(t, "-dir", dir)
	url := "http://" + s.Address
	states := watch(t, url, "a-first-upload")
	files := []upload{
		{"one.bin", random(3<<20 + 1)}, {"", []byte("a note")}, {"two.txt", random(piece)}, {"none", nil},
	}
	status, text := post(t, url+"/uploads/a-first-upload",
		func(form *multipart.Writer) error { return write(form, files) })
	const want = `[{"name":"one.bin","size":3145729},{"name":"two.txt","size":65536},{"name":"none","size":0}]` + "\n"
	if status != 201 || text != want {
		t.Fatalf("%d: %s", status, text)
	}
	has(t, dir, map[string][]byte{"one.bin": files[0].body, "two.txt": files[2].body, "none": nil})
	if p := last(t, states); p.End != "done" || p.Received != 3<<20+1+piece {
		t.Errorf("the last event is %+v", p)
	}
	if code := s.End(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// The memory of the program does not grow with the upload.
func TestMemory(t *testing.T) {
	ci.Without(t, invariants.Enabled, "every read is shortened, and so much takes half a minute")
	s := program.Start(t, "-dir", t.TempDir())
	peak := func() (kib int) {
		text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID())))(t)
		_, rest, _ := strings.Cut(string(text), "VmHWM:")
		fmt.Sscan(rest, &kib)
		return kib
	}
	send := func(n int64) {
		t.Helper()
		status, text := post(t, "http://"+s.Address+"/uploads/a-large-upload",
			func(form *multipart.Writer) error {
				part, err := form.CreateFormFile("file", "large")
				if err == nil {
					_, err = io.CopyN(part, zeros{}, n)
				}
				return errors.Join(err, form.Close())
			})
		if status != 201 {
			t.Fatalf("%d: %s", status, text)
		}
	}
	send(1 << 20)
	before := peak()
	const size = 100 << 20
	send(size)
	if grown := peak() - before; grown > size>>10/2 {
		t.Errorf("an upload of %d KiB takes %d KiB of memory", size>>10, grown)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A client that leaves midway leaves nothing behind.
func TestClientLeaves(t *testing.T) {
	for name, leave := range map[string]func(c *net.TCPConn) error{
		"closes": func(c *net.TCPConn) error { return c.Close() },
		"resets": func(c *net.TCPConn) error {
			if err := c.SetLinger(0); err != nil {
				return err
			}
			return c.Close()
		},
		"half": func(c *net.TCPConn) error { return c.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := serve(t, conn.Config{}, 1)
			id := fmt.Sprintf("upload-%s-%d", name, time.Now().UnixNano()) // -count runs it again
			states := watch(t, s.URL, id)
			text, field := encode(t, upload{"whole", random(100)}, upload{"half", random(300 << 10)})
			c := s.Dial()
			c.Send(fmt.Sprintf("POST /uploads/%s HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n%s",
				id, field, len(text), text[:200<<10]))
			wait.Until(t, "both files are open", func() bool { return open("self", dir) == 2 })
			must.Do(t, leave(c.Conn.(*net.TCPConn)))
			// It is not the server's own fault.
			if p := last(t, states); p.End != "failed" || p.Error == "" || p.Total != int64(len(text)) ||
				strings.Contains(p.Error, "the server") || strings.Contains(s.Log(), "handler failed") {
				t.Errorf("the last event is %+v, the log %s", p, s.Log())
			}
			wait.Until(t, "the files are closed", func() bool { return open("self", dir) == 0 })
			has(t, dir, nil)
			// Its place is free again.
			if a := s.Do("POST", "/uploads/"+id, text, field); a.StatusCode != 201 {
				t.Errorf("%s: %s", a.Status, a.Text)
			}
		})
	}
}

// A client that sends a byte a while may do so, as long as body_timeout and min_rate let it. Its
// progress is told byte by byte.
func TestSlowClient(t *testing.T) {
	text, field := encode(t, upload{"slow", []byte("0123456789")})
	at := strings.Index(text, "0123456789")
	head := fmt.Sprintf(
		"POST /uploads/a-slow-upload HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n",
		field, len(text))
	t.Run("in time", func(t *testing.T) {
		s, dir := serve(t, conn.Config{Limits: conn.Limits{MinRate: -1, BodyTimeout: time.Hour}}, 1)
		states := watch(t, s.URL, "a-slow-upload")
		c := s.Dial()
		c.Send(head)
		for i := range len(text) {
			c.Send(text[i : i+1])
			s.Advance(time.Hour - time.Minute)
		}
		if a := c.Answer("POST"); a.StatusCode != 201 || a.Text != `[{"name":"slow","size":10}]`+"\n" {
			t.Errorf("%s: %s", a.Status, a.Text)
		}
		if p := last(t, states); p.End != "done" || p.Received != 10 {
			t.Errorf("the last event is %+v", p)
		}
		has(t, dir, map[string][]byte{"slow": []byte("0123456789")})
	})
	t.Run("too slow", func(t *testing.T) {
		s, dir := serve(t, conn.Config{Limits: conn.Limits{MinRate: -1, BodyTimeout: time.Hour}}, 1)
		states := watch(t, s.URL, "too-slow-upload")
		c := s.Dial()
		c.Send(strings.Replace(head, "a-slow", "too-slow", 1) + text[:at+5])
		// It may still be opening the file, and then it has not begun to wait.
		answer := make(chan lwangotest.Answer, 1)
		go func() {
			defer close(answer)
			answer <- c.Answer("POST")
		}()
		var a lwangotest.Answer
		for waits := true; waits; {
			s.Advance(time.Hour)
			select {
			case a, waits = <-answer:
				if !waits {
					return // there is none
				}
				waits = false
			case <-time.After(100 * time.Millisecond):
			}
		}
		if a.StatusCode != 408 || !strings.Contains(a.Text, "not sent in time") {
			t.Errorf("%s: %s", a.Status, a.Text)
		}
		if p := last(t, states); p.End != "failed" || !strings.Contains(p.Error, "not sent in time") {
			t.Errorf("the last event is %+v", p)
		}
		has(t, dir, nil)
	})
}

func TestRefused(t *testing.T) {
	small, smallField := encode(t, upload{"a", []byte("b")})
	large, largeField := encode(t, upload{"a", random(2 << 20)})
	empty, emptyField := encode(t, upload{"", []byte("b")})
	many, manyField := encode(t, make17()...)
	for _, test := range []struct {
		name, id, text, field string
		status                int
		want                  string
	}{
		{"too large", "refused-1", large, largeField, 413, "too large: 1.0 MB are allowed"},
		{"no file", "refused-2", empty, emptyField, 400, "no file"},
		{"too many files", "refused-3", many, manyField, 400, "more than 16 files"},
		{"cut in a part", "refused-4", small[:len(small)-10], smallField, 400, "unexpected EOF"},
		{"no form", "refused-5", "{}", "Content-Type: application/json", 400, "not a form"},
		{"short id", "refuse", small, smallField, 400, "8 to 64"},
		{"odd id", "upload%2F1", small, smallField, 400, "8 to 64"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, dir := serve(t, conn.Config{}, 1)
			a := s.Do("POST", "/uploads/"+test.id, test.text, test.field)
			if a.StatusCode != test.status || !strings.Contains(a.Text, test.want) {
				t.Errorf("%s: %q, want %d with %q", a.Status, a.Text, test.status, test.want)
			}
			has(t, dir, nil)
			wait.Until(t, "no file is open", func() bool { return open("self", dir) == 0 })
			if strings.HasPrefix(test.id, "refused") {
				if p := last(t, watch(t, s.URL, test.id)); p.End != "failed" ||
					!strings.Contains(p.Error, test.want) {
					t.Errorf("the last event is %+v", p)
				}
			}
		})
	}
}

// A form of unknown length is refused when it has become too large.
func TestGrowsTooLarge(t *testing.T) {
	s, dir := serve(t, conn.Config{}, 1)
	states := watch(t, s.URL, "a-growing-upload")
	text, field := encode(t, upload{"a", random(2 << 20)})
	req, err := http.NewRequest("POST", s.URL+"/uploads/a-growing-upload",
		io.MultiReader(strings.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	_, kind, _ := strings.Cut(field, " ")
	req.Header.Set("Content-Type", kind)
	if resp, err := s.Client().Do(req); err == nil { // else the client was still sending
		resp.Body.Close()
		if resp.StatusCode != 413 {
			t.Error(resp.Status)
		}
	}
	if p := last(t, states); p.Total != -1 || !strings.Contains(p.Error, "too large") {
		t.Errorf("the last event is %+v", p)
	}
	has(t, dir, nil)
}

func make17() (files []upload) {
	for range maxFiles + 1 {
		files = append(files, upload{"a", []byte("b")})
	}
	return files
}

// Forms beyond the number that is received at a time, and two with the same id, are refused.
func TestAtOnce(t *testing.T) {
	s, dir := serve(t, conn.Config{}, 1)
	text, field := encode(t, upload{"a", []byte("b")})
	c := s.Dial()
	c.Send(
		fmt.Sprintf("POST /uploads/the-first HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %d\r\n\r\n",
			field, len(text)))
	wait.Until(t, "the second is refused", func() bool {
		a := s.Do("POST", "/uploads/the-second", text, field)
		return a.StatusCode == 503 && a.Header.Get("Retry-After") != ""
	})
	if a := s.Do("POST", "/uploads/the-first", text, field); a.StatusCode != 409 {
		t.Error(a.Status)
	}
	c.Send(text)
	if a := c.Answer("POST"); a.StatusCode != 201 {
		t.Error(a.Status)
	}
	wait.Until(t, "no file is open", func() bool { return open("self", dir) == 0 })
}

// Clients that send files of the same name at the same time overwrite nothing.
func TestSameName(t *testing.T) {
	s, dir := serve(t, conn.Config{}, 64)
	want := map[string][]byte{"a.tar": nil}
	for i := 2; i <= 8; i++ {
		want[fmt.Sprintf("a (%d).tar", i)] = nil
	}
	var wg sync.WaitGroup
	for i := range len(want) {
		text, field := encode(t, upload{"a.tar", nil})
		wg.Go(func() {
			if a := s.Do("POST", fmt.Sprintf("/uploads/same-name-%d", i), text, field); a.StatusCode != 201 {
				t.Errorf("%s: %s", a.Status, a.Text)
			}
		})
	}
	wg.Wait()
	has(t, dir, want)
}

func TestSafeName(t *testing.T) {
	long := strings.Repeat("ä", 150)
	for name, want := range map[string]string{
		"report.pdf":           "report.pdf",
		"../../etc/passwd":     "passwd",
		`C:\files\report.pdf`:  "report.pdf",
		".bashrc":              "bashrc",
		"..":                   "file",
		"":                     "file",
		"a/":                   "file",
		" . ":                  "file",
		"a\x00b\nc":            "a_b_c",
		"<script>":             "_script_",
		"Über uns (2).txt":     "Über uns (2).txt",
		"日本.txt":               "日本.txt",
		"bad\xffutf8":          "bad_utf8",
		long + ".txt":          strings.Repeat("ä", 98) + ".txt",
		"a." + long:            "a." + strings.Repeat("ä", 99),
		strings.Repeat(".", 9): "file",
	} {
		if got := safeName(name); got != want || len(got) > 200 {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	program.Fails(t, nil, 2, "-dir is missing")
	program.Fails(t, []string{"-dir", "/nowhere"}, 1, "/nowhere: no such file")
	program.Fails(t, []string{"-dir", "/proc"}, 1, "create a file in /proc")
}

func TestPage(t *testing.T) {
	s, _ := serve(t, conn.Config{}, 1)
	for path, kind := range map[string]string{"/": "text/html; charset=utf-8",
		"/upload.js": "text/javascript; charset=utf-8"} {
		if a := s.Get(path); a.StatusCode != 200 || a.Header.Get("Content-Type") != kind || a.Text == "" {
			t.Errorf("%s: %s, %s", path, a.Status, a.Header.Get("Content-Type"))
		}
	}
	if a := s.Get("/uploads/an-upload"); a.StatusCode != 405 || a.Header.Get("Allow") != "POST" {
		t.Errorf("%s, %q", a.Status, a.Header.Get("Allow"))
	}
}
