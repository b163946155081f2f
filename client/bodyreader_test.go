package client_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// told answers with what it has got.
func told(c net.Conn, r *bufio.Reader) {
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		text := fmt.Sprint(req.Method, " ", req.ContentLength, " ", req.TransferEncoding, " ", len(body),
			" ", strings.Count(string(body), "x"))
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}
}

// TestFrom: bodies that are read while they are sent, with and without a length, around the size of
// a piece, whole, byte by byte, and with the end beside the last byte.
func TestFrom(t *testing.T) {
	addr, _ := script(t, told)
	onThread(t, func(th *loop.Thread) {
		var c client.Client
		for _, n := range []int{0, 1, 5, 16<<10 - 30, 16<<10 - 1, 16 << 10, 16<<10 + 1, 3 << 20} {
			for how, wrap := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "half": iotest.HalfReader,
				"end": iotest.DataErrReader,
			} {
				for _, length := range []int64{int64(n), -1} {
					from := wrap(strings.NewReader(strings.Repeat("x", n)))
					resp, err := c.Do(th, wait.Patience,
						&client.Request{Method: "POST", URL: "http://" + addr, From: from,
							Length: length})
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(resp.Body)
					want := fmt.Sprintf("POST %d [] %d %d", n, n, n)
					if length <= 0 {
						want = fmt.Sprintf("POST -1 [chunked] %d %d", n, n)
					}
					if string(got) != want || err != nil {
						t.Errorf("%s, %d of %d: %q, %v, want %q", how, n, length, got, err, want)
					}
				}
			}
		}
	})
}

// TestFromLonger: what is behind the announced length is not read.
func TestFromLonger(t *testing.T) {
	addr, _ := script(t, told)
	onThread(t, func(th *loop.Thread) {
		from := strings.NewReader("xxyyy")
		resp, err := client.Do(th, wait.Patience,
			&client.Request{Method: "PUT", URL: "http://" + addr, From: from, Length: 2})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); string(got) != "PUT 2 [] 2 2" || err != nil ||
			from.Len() != 3 {
			t.Errorf("%q, %v, %d bytes left", got, err, from.Len())
		}
	})
}

// TestFromFails: a body that fails, or ends early, ends the request, and its connection.
func TestFromFails(t *testing.T) {
	broken := errors.New("broken")
	addr, open := script(t, told)
	onThread(t, func(th *loop.Thread) {
		for _, tt := range []struct {
			from   io.Reader
			length int64
			err    error
		}{
			{io.MultiReader(strings.NewReader("xx"), iotest.ErrReader(broken)), 5, broken},
			{io.MultiReader(strings.NewReader("xx"), iotest.ErrReader(broken)), -1, broken},
			{strings.NewReader("xx"), 5, io.ErrUnexpectedEOF},
		} {
			_, err := client.Do(th, wait.Patience,
				&client.Request{Method: "POST", URL: "http://" + addr, From: tt.from,
					Length: tt.length})
			if !errors.Is(err, tt.err) || errors.Is(err, client.ErrConnect) {
				t.Errorf("%v, want %v", err, tt.err)
			}
		}
	})
	wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
}

// idleReader returns nothing so many times before each piece.
type idleReader struct {
	io.Reader
	times, left int
}

func (r *idleReader) Read(p []byte) (int, error) {
	if r.left--; r.left >= 0 {
		return 0, nil
	}
	r.left = r.times
	return r.Reader.Read(p)
}

// TestFromNothing: a reader that returns nothing does not hold the loop, and ends the request if it
// goes on so.
func TestFromNothing(t *testing.T) {
	addr, open := script(t, told)
	onThread(t, func(th *loop.Thread) {
		turns, over := 0, false
		th.Go(func(th *loop.Thread) error {
			for ; !over; turns++ {
				th.Yield()
			}
			return nil
		})
		var c client.Client
		ask := func(times int, length int64) (*client.Response, error) {
			from := &idleReader{Reader: iotest.OneByteReader(strings.NewReader("xxxxx")), times: times,
				left: times}
			return c.Do(th, wait.Patience,
				&client.Request{Method: "POST", URL: "http://" + addr, From: from, Length: length})
		}
		for length, want := range map[int64]string{5: "POST 5 [] 5 5", -1: "POST -1 [chunked] 5 5"} {
			resp := must.Get(ask(50, length))(t)
			if got, err := io.ReadAll(resp.Body); string(got) != want || err != nil {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		}
		if turns < 500 {
			t.Errorf("another thread has had %d turns", turns)
		}
		over = true
		for _, length := range []int64{5, -1} {
			if _, err := ask(1<<60, length); !errors.Is(err, io.ErrNoProgress) {
				t.Error(err)
			}
		}
	})
	wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "xxxxxxxx"), nil }

// TestFromAnswered: a server that answers before it has read all is heard. One that neither reads
// nor answers ends the request when its time is over.
func TestFromAnswered(t *testing.T) {
	early, _ := script(t, func(c net.Conn, r *bufio.Reader) {
		if req, err := http.ReadRequest(r); err == nil {
			io.CopyN(io.Discard, req.Body, 100_000)
			io.WriteString(c, "HTTP/1.1 413 No\r\nContent-Length: 3\r\n\r\nbig")
			io.Copy(io.Discard, r)
		}
	})
	asked := make(chan bool)
	silent, open := script(t, func(c net.Conn, r *bufio.Reader) { <-asked }) // it does not read
	reads, _ := script(t, func(c net.Conn, r *bufio.Reader) { io.Copy(io.Discard, r) })
	onThread(t, func(th *loop.Thread) {
		defer close(asked)
		resp, err := client.Do(th, wait.Patience,
			&client.Request{Method: "POST", URL: "http://" + early, From: endless{}})
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); resp.Status != 413 || string(body) != "big" || err != nil {
			t.Errorf("%d %q, %v", resp.Status, body, err)
		}
		for _, addr := range []string{silent, reads} {
			_, err := client.Do(th, 50*time.Millisecond,
				&client.Request{Method: "POST", URL: "http://" + addr, From: endless{}})
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
		}
	})
	wait.Until(t, "nothing is open", func() bool { return open.Load() == 0 })
}

// TestFromRedirected: a redirect that wants the body again is the answer; one that does not is
// followed.
func TestFromRedirected(t *testing.T) {
	for status, want := range map[int]string{307: "307", 308: "308", 303: "200 GET", 302: "200 GET"} {
		addr, _ := script(t, func(c net.Conn, r *bufio.Reader) {
			for {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				io.Copy(io.Discard, req.Body)
				if req.URL.Path == "/" {
					fmt.Fprintf(c, "HTTP/1.1 %d X\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n", status)
				} else {
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n%s", req.Method)
				}
			}
		})
		onThread(t, func(th *loop.Thread) {
			resp, err := client.Do(th, wait.Patience,
				&client.Request{Method: "POST", URL: "http://" + addr, Follow: 1,
					From: strings.NewReader("xx"), Length: 2})
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if got := strings.TrimSpace(fmt.Sprint(resp.Status, " ", string(body))); got != want ||
				err != nil {
				t.Errorf("%d: %q, %v, want %q", status, got, err, want)
			}
		})
	}
}

// trickle is a body that comes when its channel says so.
type trickle struct {
	io.Reader
	th    *loop.Thread
	ready *loop.Promise[bool]
	waits *int
}

func (r *trickle) AwaitInput() error {
	*r.waits++
	_, err := r.ready.Await(r.th, -1)
	return err
}

func (r *trickle) Read(p []byte) (int, error) {
	_ = r.AwaitInput()
	return r.Reader.Read(p)
}

// TestFromHoldsNoBuffer: a hundred requests that wait for the next piece of their bodies hold no
// buffers.
func TestFromHoldsNoBuffer(t *testing.T) {
	const uploads = 100
	addr, open := script(t, told)
	heap := func() int {
		runtime.GC()
		runtime.GC() // for what is in a pool
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	onThread(t, func(th *loop.Thread) {
		c := client.Client{}
		ready, waits := new(loop.Promise[bool]), 0
		before := heap()
		var asked []*loop.Promise[string]
		for range uploads {
			asked = append(asked, loop.Go(th, func(th *loop.Thread) (string, error) {
				from := &trickle{strings.NewReader("xx"), th, ready, &waits}
				resp, err := c.Do(th, wait.Patience,
					&client.Request{Method: "POST", URL: "http://" + addr, From: from})
				if err != nil {
					return "", err
				}
				text, err := io.ReadAll(resp.Body)
				return string(text), err
			}))
		}
		for waits < uploads || open.Load() < uploads {
			_ = th.Sleep(time.Millisecond)
		}
		// The server's side is in this process, too, and holds some 10 KiB for each.
		if n := (heap() - before) / uploads; n > 24<<10 {
			t.Errorf("an upload holds %d bytes", n)
		} else {
			t.Logf("an upload holds %d bytes", n)
		}
		ready.Resolve(true)
		texts, errs := loop.Collect(th, wait.Patience, asked...)
		for _, text := range texts {
			if text != "POST -1 [chunked] 2 2" {
				t.Error(text)
			}
		}
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
}
