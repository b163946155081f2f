package conn_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// echoes are handlers that send the body back.
var echoes = map[string]conn.Handler{
	"/collect": func(req *conn.Request, w *conn.Response) int {
		body, err := io.ReadAll(req.Body())
		if err != nil {
			return 500
		}
		w.SetBody(body)
		return 200
	},
	"/copy": func(req *conn.Request, w *conn.Response) int {
		if _, err := io.Copy(w, req.Body()); err != nil {
			return 500
		}
		return 200
	},
	"/stream": func(req *conn.Request, w *conn.Response) int {
		w.SetBodyReader(req.Body(), req.ContentLength())
		return 200
	},
}

// chunks is body in the chunked coding, in chunks of that size.
func chunks(body []byte, size int) string {
	var b strings.Builder
	for i := 0; len(body) > 0; i++ {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%X", n)
		if i%3 == 1 {
			b.WriteString(";name=value; q=\"a;\\\"b\" ;flag")
		}
		b.WriteString("\r\n")
		b.Write(body[:n])
		b.WriteString("\r\n")
		body = body[n:]
	}
	b.WriteString("000\r\nTrailer: ignored\r\nContent-Length: 5\r\n\r\n")
	return b.String()
}

func TestUploadsOfEverySize(t *testing.T) {
	t.Parallel()
	largest := 3 << 20
	if invariants.Enabled { // which makes many small reads of it
		largest = 1 << 20
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: byPath(echoes)})
		rng := rand.New(rand.NewPCG(1, 2))
		for path := range echoes {
			c := s.Dial() // one for all: each body's end is found
			for _, size := range []int{0, 1, 100, 4095, 4096, 4097, 65_536, 300_001, largest} {
				body := noise()[:size]
				for _, raw := range []string{
					fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", path,
						size, body),
					fmt.Sprintf(
						"POST %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s", path,
						chunks(body, 1+size/7)),
					fmt.Sprintf(
						"PUT %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s", path,
						chunks(body[:min(size, 5000)], 3)),
				} {
					want := body
					if strings.HasPrefix(raw, "PUT") {
						want = body[:min(size, 5000)]
					}
					sent := make(chan error, 1)
					go func() { // what is echoed comes while the rest is still being sent
						rest := raw
						for len(rest) > 0 {
							n := min(1+rng.IntN(1+len(raw)/3), len(rest))
							if _, err := io.WriteString(c.Conn, rest[:n]); err != nil {
								sent <- err
								return
							}
							rest = rest[n:]
						}
						sent <- nil
					}()
					a := c.Answer("POST")
					must.Do(t, <-sent)
					if a.StatusCode != 200 || a.Text != string(want) {
						t.Fatalf("%s, %d bytes: %s, %d bytes came back", path, len(want), a.Status,
							len(a.Text))
					}
				}
			}
		}
	})
}

func TestBodiesSplitAtEveryByte(t *testing.T) {
	body := []byte("0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
	rows := []string{
		fmt.Sprintf("POST /copy HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body),
			body),
		"POST /copy HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(body, 7),
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: byPath(echoes)})
		c := s.Dial()
		for _, raw := range rows {
			for at := 1; at < len(raw); at++ {
				send(t, c, raw[:at])
				s.Settle()
				send(t, c, raw[at:]+raw[:at])
				s.Settle()
				send(t, c, raw[at:])
				for _, a := range answers(t, c.R, "POST", "POST") {
					if a.Text != string(body) {
						t.Fatalf("split at %d: %s %q", at, a.Status, a.Text)
					}
				}
			}
		}
	}, plain, direct)
}

// TestExpectContinue: 100 is for clients that wait, of handlers that read.
func TestExpectContinue(t *testing.T) {
	h := byPath(map[string]conn.Handler{
		"/read":   echoes["/collect"],
		"/unread": hello,
		"/stream": echoes["/stream"],
		"/late": func(req *conn.Request, w *conn.Response) int {
			w.WriteString("first ")
			w.Flush()
			_, _ = io.Copy(w, req.Body())
			return 200
		},
	})
	const expect = " HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: h, Limits: conn.Limits{MaxBodySize: 100}})

		c := s.Dial()
		for range 2 {
			send(t, c, "PUT /read"+expect)
			if a := c.Answer("PUT"); a.StatusCode != 100 || len(a.Header) != 0 {
				t.Fatalf("waiting client: %v", a.Response)
			}
			if a := c.Do("PUT", "hello"); a.Text != "hello" || a.Close {
				t.Errorf("after the body: %v", a.Response)
			}
		}
		// The whole request in one: the client does not wait. If the server has read a part of it
		// only, as the invariants tag has it, the server cannot tell.
		a := c.Do("PUT", "PUT /read"+expect+"hello")
		if invariants.Enabled && a.StatusCode == 100 {
			a = c.Answer("PUT")
		}
		if a.StatusCode != 200 || a.Text != "hello" {
			t.Errorf("client that does not wait: %v", a.Response)
		}
		// An HTTP/1.0 client does not know 100.
		send(t, c, "PUT /read HTTP/1.0\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
		s.Settle()
		if a := c.Do("PUT", "hello"); a.StatusCode != 200 || a.Text != "hello" {
			t.Errorf("1.0: %v", a.Response)
		}
		c.Ends()

		// A handler that does not read: whether the body comes is unknown, so nothing can follow.
		a = parse(t, s.Exchange("PUT /unread"+expect), "PUT")[0]
		if a.StatusCode != 200 || !a.Close {
			t.Errorf("unread: %v", a.Response)
		}
		// A handler that leaves the reading to the server.
		c = s.Dial()
		send(t, c, "PUT /stream"+expect)
		if a := c.Answer("PUT"); a.StatusCode != 100 {
			t.Fatalf("body as the source: %v", a.Response)
		}
		if a := c.Do("PUT", "hello"); a.Text != "hello" || a.Close {
			t.Errorf("body as the source: %v", a.Response)
		}
		// Once the answer has begun it is too late for an interim one.
		c = s.Dial()
		send(t, c, "PUT /late"+expect)
		s.Settle()
		send(t, c, "hello")
		if a := parse(t, rest(t, c.R), "PUT")[0]; a.Text != "first hello" || !a.Close {
			t.Errorf("late: %v %q", a.Response, a.Text)
		}
		long := strings.Replace("PUT /read"+expect, "5", "101", 1)
		if a := parse(t, s.Exchange(long), "PUT")[0]; a.StatusCode != 413 {
			t.Errorf("too large: %v", a.Response)
		}
	}, http1...)
}

func TestUnreadBodies(t *testing.T) {
	rows := []struct {
		raw  string
		kept bool
	}{
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + string(noise()[:100_000]),
			true},
		// its end has not come
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
			chunks(noise()[:100_000], 999), false},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n" + string(noise()[:500_000]),
			false},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
			chunks(noise()[:500_000], 9999), false},
		{"POST /part HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" +
			string(noise()[:100_000]), true},
		{"POST /panic HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" +
			string(noise()[:100_000]), false},
	}
	h := byPath(map[string]conn.Handler{"/": hello, "/panic": failing["/panic"],
		"/part": func(req *conn.Request, w *conn.Response) int {
			_, _ = io.CopyN(io.Discard, req.Body(), 5000)
			return 200
		}})
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: h, Limits: conn.Limits{KeepAliveTimeout: time.Minute}})
		s.Panics.Expect()
		for i, row := range rows {
			c := s.Dial()
			// The answer does not wait for the body.
			half := len(row.raw) / 2
			send(t, c, row.raw[:half])
			a := c.Answer("POST")
			send(t, c, row.raw[half:])
			if a.Close == row.kept {
				t.Errorf("row %d: close is %v", i, a.Close)
			}
			if row.kept {
				for range 2 {
					c.Do("GET", get)
				}
			} else {
				c.Ends()
			}
			c.Close()
		}
	}, plain, direct, overTLS)
}

// TestBodyAwait: whoever awaits before each Read gets the same, and the same errors.
func TestBodyAwait(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		handler := func(req *conn.Request, w *conn.Response) int {
			var text []byte
			p := make([]byte, 3)
			for {
				err := req.Body().AwaitInput()
				n := 0
				if err == nil {
					n, err = req.Body().Read(p)
				} else if _, again := req.Body().Read(p); again != err {
					t.Errorf("%v, and then %v", err, again)
				}
				text = append(text, p[:n]...)
				if err != nil {
					fmt.Fprint(w, string(text))
					return 200
				}
			}
		}
		patient := start(t, m,
			conn.Config{Limits: conn.Limits{MaxBodySize: 20, BodyTimeout: wait.Patience},
				Handler: handler})
		hasty := start(t, m,
			conn.Config{Limits: conn.Limits{MaxBodySize: 20, BodyTimeout: 50 * time.Millisecond},
				Handler: handler})
		for _, row := range []struct {
			pieces []string
			status int
			text   string
		}{
			{[]string{post + "Content-Length: 5\r\n\r\nhello"}, 200, "hello"},
			{[]string{post + "Content-Length: 5\r\n\r\n", "hel", "lo"}, 200, "hello"},
			{[]string{post + "Content-Length: 0\r\n\r\n"}, 200, ""},
			{[]string{post + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"}, 100, ""},
			{[]string{chunked, "5", "\r\nhel", "lo\r\n0\r\n", "\r\n"}, 200, "hello"},
			{[]string{chunked + "what\r\n"}, 400, ""},
			{[]string{chunked + "15\r\n" + strings.Repeat("x", 21) + "\r\n0\r\n\r\n"}, 413, ""},
			{[]string{post + "Content-Length: 5\r\n\r\nhel"}, 408, ""},
			{[]string{chunked + "5\r\nhel"}, 408, ""},
		} {
			s := patient
			if row.status == 408 {
				s = hasty
			}
			c := s.Dial()
			for _, piece := range row.pieces {
				send(t, c, piece)
				s.Settle()
			}
			a := c.Answer("POST")
			if a.StatusCode != row.status || row.status == 200 && a.Text != row.text {
				t.Errorf("%q: %d %q", row.pieces, a.StatusCode, a.Text)
			}
			c.Close()
		}
	}, http1...)
}

func TestBodyCutByTheClient(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		got := make(chan error, 1)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			_, err := io.ReadAll(req.Body())
			if _, again := req.Body().Read(make([]byte, 1)); again != err {
				t.Errorf("%v, and then %v", err, again)
			}
			got <- err
			return 200
		}})
		for _, raw := range []string{
			post + "Content-Length: 10\r\n\r\n",
			post + "Content-Length: 10\r\n\r\nhello",
			chunked, chunked + "5", chunked + "5\r\nhel", chunked + "5\r\nhello\r\n",
			chunked + "5\r\nhello\r\n0\r\n", chunked + "5\r\nhello\r\n0\r\nX: y\r\n",
		} {
			c := s.Dial()
			send(t, c, raw)
			c.CloseWrite()
			if err := <-got; !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q: %v", raw, err)
			}
			if a := parse(t, rest(t, c.R), "POST")[0]; a.StatusCode != 400 || !a.Close {
				t.Errorf("%q: %v", raw, a.Response)
			}
			c.Close()
		}
		if !m.TLS {
			c := s.Dial()
			send(t, c, post+"Content-Length: 10\r\n\r\nhello")
			s.Settle()
			c.Reset()
			if err := <-got; err == nil || err == io.EOF {
				t.Errorf("reset: %v", err)
			}
		}
		s.Idle()
	}, http1...)
}

// TestBodyErrorsDecideTheStatus, as long as it has not been sent; the handler returns 200 in every
// case.
func TestBodyErrorsDecideTheStatus(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		got := make(chan error, 1)
		read := func(req *conn.Request, w *conn.Response) int {
			w.WriteString("served")
			w.Header().Set("X-Served", "yes")
			_, err := io.Copy(io.Discard, req.Body())
			got <- err
			return 200
		}
		s := start(t, m,
			conn.Config{Limits: conn.Limits{MaxBodySize: 10, BodyTimeout: 30 * time.Millisecond},
				Handler: byPath(map[string]conn.Handler{
					"/bad": read,
					"/sent": func(req *conn.Request, w *conn.Response) int {
						w.Flush()
						return read(req, w)
					},
				})})
		sent := strings.Replace(chunked, "/bad", "/sent", 1)
		for _, row := range []struct {
			raw    string
			status int
			err    error
		}{
			{chunked + "b\r\n12345678901\r\n0\r\n\r\n", 413, conn.ErrBodyTooLarge},
			{chunked + "a\r\n1234567890\r\n1", 408, conn.ErrBodyTimeout},
			{post + "Content-Length: 5\r\n\r\n1234", 408, conn.ErrBodyTimeout},
			{post + "Content-Length: 5\r\n\r\n", 408, conn.ErrBodyTimeout},
			{sent + "b\r\n12345678901\r\n0\r\n\r\n", 200, conn.ErrBodyTooLarge},
			{sent + "1\r\n", 200, conn.ErrBodyTimeout},
		} {
			answer := s.Exchange(row.raw)
			if err := <-got; !errors.Is(err, row.err) {
				t.Errorf("%q: %v, want %v", row.raw, err, row.err)
			}
			a := parse(t, answer, "POST")[0]
			if a.StatusCode != row.status ||
				strings.Contains(answer, "served") != (row.status == 200) ||
				strings.Contains(answer, "X-Served") {
				t.Errorf("%q: %s", row.raw, answer)
			}
		}
	}, plain, direct, overTLS)
}

// TestEchoWithoutEnd streams both ways with no end in sight: what is read comes back before more is
// sent.
func TestEchoWithoutEnd(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: byPath(echoes)})
		c := s.Dial()
		send(t, c,
			"POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
		resp := must.Get(http.ReadResponse(c.R, nil))(t)
		buf := make([]byte, 5)
		for _, piece := range []string{"first", "again", "third"} {
			if _, err := io.ReadFull(resp.Body, buf); err != nil ||
				!bytes.Equal(buf, []byte(piece)) {
				t.Fatalf("%q, %v", buf, err)
			}
			switch piece {
			case "first":
				send(t, c, "5\r\nagain\r\n")
			case "again":
				send(t, c, "5\r\nthird\r\n0\r\n\r\n")
			}
		}
		if more, err := io.ReadAll(resp.Body); err != nil || len(more) > 0 {
			t.Fatalf("%q, %v", more, err)
		}
		c.Do("GET", "GET /none HTTP/1.1\r\nHost: a\r\n\r\n")
	})
}

// TestBodyBehindFullBuffer: a head that leaves a byte of the input buffer does not make the server
// read the body byte by byte.
func TestBodyBehindFullBuffer(t *testing.T) {
	ci.Without(t, invariants.Enabled, "reads are short")
	const size = 100_000
	var reads atomic.Int32
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, _ *conn.Response) int {
			p := make([]byte, 4<<10)
			for {
				reads.Add(1)
				if _, err := req.Body().Read(p); err == io.EOF {
					return 200
				} else if err != nil {
					return 500
				}
			}
		}})
		body := chunks(noise()[:size], size)
		for _, left := range []int{0, 1, 2, 100} {
			head := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX: \r\n\r\n"
			pad := strings.Repeat("x", 2048-left-len(head))
			reads.Store(0)
			c := s.Dial()
			send(t, c, strings.Replace(head, "X: ", "X: "+pad, 1))
			s.Settled("read the head", func(*loop.Loop) bool { return reads.Load() > 0 })
			if a := c.Do("POST", body); a.StatusCode != 200 {
				t.Fatal(a.Status)
			}
			if n := reads.Load(); n > size/100 {
				t.Errorf("%d bytes left: %d reads for %d bytes", left, n, size)
			}
		}
	}, plain, direct)
}
