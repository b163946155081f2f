package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/internal/test/wait"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// start starts an upstream, and the program in front of it.
func start(t *testing.T, upstream http.HandlerFunc,
	args ...string) (url string, s *program.Server) {
	t.Helper()
	up := httptest.NewServer(upstream)
	t.Cleanup(up.Close)
	s = program.Start(t, append(args, "-to", up.URL)...)
	return "http://" + s.Address, s
}

// ask sends a request. Its client leaves with ctx.
func ask(t *testing.T, ctx context.Context, method, url string, body io.Reader,
	fields ...string) (*http.Response, error) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(ctx, method, url, body))(t)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		req.Header.Add(name, value)
	}
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		Timeout:       wait.Patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err == nil {
		t.Cleanup(func() { resp.Body.Close() })
	}
	return resp, err
}

func TestPasses(t *testing.T) {
	url, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		text, err := httputil.DumpRequest(r, true)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Answer", "yes")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "yes")
		w.Header().Add("Set-Cookie", "a=b")
		w.Header().Add("Set-Cookie", "c=d")
		w.WriteHeader(418)
		w.Write(text)
	})
	resp, err := ask(t, t.Context(), "PATCH", url+"/a%2Fb/c%20d?q=1&q=%20",
		strings.NewReader("the body"), "X-Own: 1", "X-Own: 2", "Connection: x-private", "X-Private: 3",
		"Te: trailers", "Proxy-Authorization: 4", "User-Agent: test", "Accept-Encoding: identity")
	if err != nil {
		t.Fatal(err)
	}
	text := must.Get(io.ReadAll(resp.Body))(t)
	host := strings.TrimPrefix(url, "http://")
	for _, want := range []string{"PATCH /a%2Fb/c%20d?q=1&q=%20 HTTP/1.1\r\n", "\r\n\r\nthe body",
		"X-Own: 1\r\nX-Own: 2\r\n",
		"X-Forwarded-For: 127.0.0.1\r\n", "X-Forwarded-Host: " + host + "\r\n", "User-Agent: test\r\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for _, no := range []string{"Private", "Te:", "Proxy-"} {
		if strings.Contains(string(text), no) {
			t.Errorf("%q is in\n%s", no, text)
		}
	}
	h := resp.Header
	if resp.StatusCode != 418 || h.Get("X-Answer") != "yes" || h.Get("X-Hop") != "" ||
		strings.Join(h["Set-Cookie"], " ") != "a=b c=d" || resp.ContentLength != int64(len(text)) {
		t.Errorf("%s %v", resp.Status, h)
	}
}

// TestKinds: answers without a body, or of unknown length.
func TestKinds(t *testing.T) {
	url, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/304":
			w.Header().Set("ETag", `"x"`)
			w.WriteHeader(304)
		case "/204":
			w.WriteHeader(204)
		case "/302":
			http.Redirect(w, r, "/there", 302)
		case "/chunks":
			w.(http.Flusher).Flush()
			io.WriteString(w, "in chunks")
		default:
			io.WriteString(w, "hello")
		}
	})
	for _, test := range []struct {
		method, path string
		status       int
		length       int64
		text         string
	}{
		{"GET", "/", 200, 5, "hello"},
		{"HEAD", "/", 200, 5, ""},
		{"GET", "/chunks", 200, -1, "in chunks"},
		{"GET", "/204", 204, 0, ""},
		{"GET", "/304", 304, 0, ""},
		{"POST", "/302", 302, 0, ""},
	} {
		resp, err := ask(t, t.Context(), test.method, url+test.path, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		text, err := io.ReadAll(resp.Body)
		if resp.StatusCode != test.status || resp.ContentLength != test.length ||
			string(text) != test.text || err != nil {
			t.Errorf("%s %s: %s, length %d, %q, %v", test.method, test.path, resp.Status, resp.ContentLength,
				text, err)
		}
	}
}

// TestStreams: what one side sends, the other has, before the first sends more; with a length and
// in chunks.
func TestStreams(t *testing.T) {
	for _, length := range []int64{9, -1} {
		got, more := make(chan string), make(chan string)
		url, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
			buf := make([]byte, 3)
			for {
				if _, err := io.ReadFull(r.Body, buf); err != nil {
					break
				}
				got <- string(buf)
			}
			if r.ContentLength != length {
				t.Errorf("length %d, want %d", r.ContentLength, length)
			}
			for text := range more {
				io.WriteString(w, text)
				w.(http.Flusher).Flush()
			}
		})
		r, w := io.Pipe()
		req := must.Get(http.NewRequestWithContext(t.Context(), "POST", url, r))(t)
		req.ContentLength = length
		answer := make(chan *http.Response)
		go func() {
			defer close(answer)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			answer <- resp
		}()
		pieces := []string{"one", "two", "six"}
		for _, piece := range pieces {
			io.WriteString(w, piece)
			if g := <-got; g != piece {
				t.Errorf("the server got %q, want %q", g, piece)
			}
		}
		w.Close()
		more <- pieces[0]
		resp, ok := <-answer
		if !ok {
			close(more)
			continue
		}
		buf := make([]byte, 3)
		for i, piece := range pieces {
			if i > 0 {
				more <- piece
			}
			if _, err := io.ReadFull(resp.Body, buf); string(buf) != piece || err != nil {
				t.Errorf("the client got %q, %v, want %q", buf, err, piece)
			}
		}
		close(more)
		if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
		resp.Body.Close()
	}
}

// TestLarge: much in both directions, and it arrives as it was.
func TestLarge(t *testing.T) {
	body := make([]byte, 20<<20)
	rand.NewChaCha8([32]byte{}).Read(body)
	url, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		got, err := io.ReadAll(r.Body)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("the server got %d bytes, %v", len(got), err)
		}
		w.Write(got)
	})
	resp := must.Get(ask(t, t.Context(), "PUT", url, bytes.NewReader(body)))(t)
	if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, body) {
		t.Errorf("the client got %d bytes, %v", len(got), err)
	}
}

// TestFails: what the client gets when there is no answer, or half of one.
func TestFails(t *testing.T) {
	url := "http://" + program.Start(t, "-to", "http://"+refuse.Address(t)).Address
	if resp, err := ask(t, t.Context(), "GET", url, nil); err != nil || resp.StatusCode != 502 {
		t.Errorf("nobody listens: %v, %v", resp, err)
	}
	url, _ = start(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "-limit",
		"50ms")
	if resp, err := ask(t, t.Context(), "GET", url, nil); err != nil || resp.StatusCode != 504 {
		t.Errorf("no answer: %v, %v", resp, err)
	}
	url, s := start(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	resp := must.Get(ask(t, t.Context(), "GET", url, nil))(t)
	if text, err := io.ReadAll(resp.Body); string(text) != "half" ||
		!errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half an answer: %q, %v", text, err)
	}
	// A body that the server does not take.
	if resp, err := ask(t, t.Context(), "POST", url, io.LimitReader(zeros{}, 41<<20)); err == nil &&
		resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	// A body that is no body.
	c := must.Dial(t, "tcp", s.Address)
	fmt.Fprint(c,
		"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nno "+
			"chunk\r\n")
	if text, err := io.ReadAll(c); !strings.HasPrefix(string(text), "HTTP/1.1 400 ") || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestClientLeaves: the server is told, whichever side was sending.
func TestClientLeaves(t *testing.T) {
	began, left := make(chan bool), make(chan error)
	url, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			_, err := io.ReadFull(r.Body, make([]byte, 5))
			began <- true
			if err == nil {
				_, err = r.Body.Read(make([]byte, 5))
			}
			left <- err
			return
		}
		w.(http.Flusher).Flush()
		began <- true
		<-r.Context().Done()
		left <- r.Context().Err()
	})
	for _, method := range []string{"GET", "POST"} {
		ctx, leave := context.WithCancel(t.Context())
		var body io.Reader
		if method == "POST" {
			r, w := io.Pipe()
			defer w.Close()
			go io.WriteString(w, "hello")
			body = r
		}
		go func() {
			if resp, err := ask(t, ctx, method, url, body); err == nil {
				io.Copy(io.Discard, resp.Body)
			}
		}()
		<-began
		leave()
		if err := <-left; err == nil || err == io.EOF {
			t.Errorf("%s: the server is told %v", method, err)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, to := range []string{"", "127.0.0.1:9000", "http://", "http://a/b", "http://u:p@a",
		"ftp://a"} {
		program.Fails(t, []string{"-to", to}, 2, "-to wants a URL")
	}
}
