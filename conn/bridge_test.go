package conn_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
)

type mount func(http.Handler) conn.Handler

// bothWays gives each way of running an http.Handler the same test, in each mode.
func bothWays(t *testing.T, f func(t *testing.T, m mode, mount mount), modes ...mode) {
	run(t, func(t *testing.T, m mode) {
		t.Run("off the loop", func(t *testing.T) { f(t, m, conn.HTTP) })
		t.Run("on the loop", func(t *testing.T) { f(t, m, conn.HTTPOnLoop) })
	}, modes...)
}

// reference serves h with net/http.
func reference(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// ask sends raw and returns the answer to the last of its requests; interim ones are named in the
// status.
func ask(t *testing.T, c net.Conn, method, raw string) answer {
	t.Helper()
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	send(t, c, raw)
	br := bufio.NewReader(c)
	interim := ""
	for {
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return answer{Response: &http.Response{Status: interim + "none"}}
		}
		if resp.StatusCode < 200 && resp.StatusCode != 101 {
			interim += fmt.Sprint(resp.StatusCode, resp.Header, " ")
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			body = fmt.Append(body, " and then ", err)
		}
		resp.Status = interim + strconv.Itoa(resp.StatusCode)
		return answer{Response: resp, Text: string(body)}
	}
}

// sameAsReference compares an answer with what net/http gives.
func sameAsReference(t *testing.T, what string, got, want answer) {
	t.Helper()
	if got.Status != want.Status {
		t.Errorf("%s: %s, net/http: %s", what, got.Status, want.Status)
	}
	if got.Text != want.Text {
		t.Errorf("%s:\n%s\nnet/http:\n%s", what, clip(got.Text), clip(want.Text))
	}
	for _, h := range []http.Header{got.Header, want.Header} {
		h.Del("Date")
		h.Del("Connection")     // what it means is compared
		h.Del("Content-Length") // we know it for up to 32 KiB, net/http for 2
	}
	if !maps.EqualFunc(got.Header, want.Header, slices.Equal) {
		t.Errorf("%s: header\n%q\nnet/http:\n%q", what, got.Header, want.Header)
	}
	if !maps.EqualFunc(got.Trailer, want.Trailer, slices.Equal) {
		t.Errorf("%s: trailer %q, net/http: %q", what, got.Trailer, want.Trailer)
	}
	if got.Close != want.Close {
		t.Errorf("%s: close %v, net/http: %v", what, got.Close, want.Close)
	}
}

// TestBridgePanics: a panic costs its connection, and is logged with the stack of the handler.
func TestBridgePanics(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			switch r.URL.Path {
			case "/":
				io.WriteString(w, "good")
			case "/panic":
				w.Header().Set("X", "secret")
				io.WriteString(w, "secret")
				bridgePanics()
			case "/late":
				io.WriteString(w, "begun")
				w.(http.Flusher).Flush()
				bridgePanics()
			case "/abort":
				io.WriteString(w, "secret")
				panic(http.ErrAbortHandler)
			}
		}))})
		s.Panics.Expect()
		for path, want := range map[string]string{"/panic": "HTTP/1.1 500 ", "/late": "begun",
			"/abort": ""} {
			c := s.Dial()
			c.Do("GET", get)
			before := strings.Count(s.Log.String(), "bridgePanics")
			send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"+get)
			got, _ := io.ReadAll(c.R)
			text := string(got)
			if !strings.Contains(text, want) || strings.Contains(text, "secret") ||
				strings.Contains(text, "good") ||
				want == "" && text != "" {
				t.Errorf("%s: %q", path, text)
			}
			if logged := strings.Count(s.Log.String(),
				"bridgePanics") > before; logged != (path != "/abort") {
				t.Errorf("%s: logged %v\n%s", path, logged, s.Log)
			}
		}
	}, http1...)
}

func bridgePanics() { panic("for the test") }

// TestBridgeContext: the context ends with the request, and not before.
func TestBridgeContext(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		got := make(chan context.Context, 1)
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			if err := r.Context().Err(); err != nil {
				t.Error(err)
			}
			got <- r.Context()
		}))})
		c := s.Dial()
		for range 3 {
			c.Do("GET", get)
			ctx := <-got
			<-ctx.Done()
			if err := ctx.Err(); err != context.Canceled {
				t.Error(err)
			}
		}
	})
}

// TestBridgeIsDeadAfterwards: what a handler has kept does not lead to another's request.
func TestBridgeIsDeadAfterwards(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		type kept struct {
			w http.ResponseWriter
			r *http.Request
		}
		left := make(chan kept, 1)
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			left <- kept{w, r}
		}))})
		c := s.Dial()
		for range 2 {
			a := c.Do("POST", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
			k := <-left
			if _, err := k.r.Body.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
				t.Errorf("read: %v", err)
			}
			if a.Text != "" || k.r.RequestURI != "/x" {
				t.Error(a.Text, k.r.RequestURI)
			}
		}
	})
}

// TestBridgeMiddleware: a Handler in front can change the request's header, and add to the
// response's.
func TestBridgeMiddleware(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		h := mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("B", "handler")
			fmt.Fprint(w, r.Header["X-User"])
		}))
		s := start(t, m, conn.Config{
			Headers: []conn.Field{{Name: "C", Value: "configured"},
				{Name: "B", Value: "configured"}},
			Handler: func(req *conn.Request, resp *conn.Response) int {
				req.Header().Set("x-user", "u")
				resp.Header().Add("a", "front")
				resp.Header().Add("b", "front")
				return h(req, resp)
			},
		})
		a := s.Dial().Do("GET", "GET / HTTP/1.1\r\nHost: a\r\nX-User: forged\r\n\r\n")
		if a.Text != "[u]" || a.Header.Get("A") != "front" ||
			!slices.Equal(a.Header["B"], []string{"handler"}) ||
			a.Header.Get("C") != "configured" {
			t.Errorf("%q %v", a.Text, a.Header)
		}
	})
}

func mountsOffLoop(t *testing.T) bool { return strings.HasSuffix(t.Name(), "off_the_loop") }

// A handler may leave its OS thread locked, in place or on a goroutine.
func TestBridgeLockedThread(t *testing.T) {
	atOnce(t, func(t *testing.T, m mode) {
		h := func(w http.ResponseWriter, r *http.Request) {
			runtime.LockOSThread()
			if r.URL.Path == "/long" {
				io.WriteString(w, strings.Repeat("x", 200_000))
			}
			io.WriteString(w, "locked")
		}
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(h))})
		c := s.Dial()
		for range 3 {
			for path, size := range map[string]int{"/": 6, "/long": 200_006} {
				a := c.Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
				if len(a.Text) != size {
					t.Errorf("%s: %d bytes", path, len(a.Text))
				}
			}
		}
	}, http1...)
}
