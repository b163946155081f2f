package conn_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/loop"
)

// A server on one loop, without configuration, command line or signals: those are package lwango's.
func Example() {
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fd, err := loop.Listen("tcp", "127.0.0.1:0", false)
	if err != nil {
		log.Fatal(err)
	}
	server := conn.NewServer(conn.Config{
		Handler: func(req *conn.Request, resp *conn.Response) int {
			resp.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprintf(resp, "You asked for %s.", req.Path())
			return 200
		},
		Limits: conn.Limits{MaxBodySize: 1 << 20},
	})
	if _, err := server.Listen(l, conn.Listener{FD: fd}); err != nil {
		log.Fatal(err)
	}
	go func() { // a client, which may block as a handler must not
		defer l.Stop(time.Second)
		answer, err := http.Get("http://" + loop.LocalAddr(fd).String() + "/tea")
		if err != nil {
			log.Fatal(err)
		}
		defer http.DefaultClient.CloseIdleConnections()
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer.Status, answer.Header.Get("Content-Type"))
		fmt.Println(string(body))
	}()
	if err := l.Run(); err != nil { // until Stop
		log.Fatal(err)
	}
	// Output:
	// 200 OK text/plain; charset=utf-8
	// You asked for /tea.
}

// The status is what the handler returns. An error without a body gets the error page.
func ExampleHandler() {
	h := func(req *conn.Request, resp *conn.Response) int {
		switch req.Path() {
		case "/":
			resp.WriteString("welcome")
			return 0 // stands for 200
		case "/old":
			resp.Header().Set("Location", "/")
			return http.StatusMovedPermanently
		case "/secret":
			resp.WriteString("not for you")
			return http.StatusForbidden
		}
		return http.StatusNotFound
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url + "/old")) // the client follows it
	server.Show(http.Get(url + "/secret"))
	answer, err := http.Get(url + "/other")
	if err != nil {
		log.Fatal(err)
	}
	answer.Body.Close()
	fmt.Println(answer.Status, answer.Header.Get("Content-Type"))
	// Output:
	// 200 OK
	// welcome
	// 403 Forbidden
	// not for you
	// 404 Not Found text/html; charset=utf-8
}

// Any http.Handler runs off the loop, where it may block.
func ExampleHTTP() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /rooms/{name}", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Millisecond) // its own goroutine waits, and not the loop
		fmt.Fprintf(w, "This is room %s.", r.PathValue("name"))
	})

	url, stop := server.StartExample(conn.HTTP(mux))
	defer stop()
	server.Show(http.Get(url + "/rooms/12"))
	// Output:
	// 200 OK
	// This is room 12.
}

// A handler waits in plain sequential code; its loop serves other requests meanwhile.
func ExampleRequest() {
	h := func(req *conn.Request, resp *conn.Response) int {
		if err := req.Sleep(time.Millisecond); err != nil {
			return 0 // the client has left, and nobody reads what is returned
		}
		name := req.Query().Get("name")
		if c, ok := req.Cookie("name"); ok {
			name = c
		}
		fmt.Fprintf(resp, "%s %s by %s", req.Method(), req.SubPath(), name)
		return 200
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url + "/cake?name=Lwan"))
	// Output:
	// 200 OK
	// GET /cake by Lwan
}

// Form reads the body. Its errors have a status of their own, which the server sends where the
// handler gives no body.
func ExampleRequest_Form() {
	h := func(req *conn.Request, resp *conn.Response) int {
		form, err := req.Form()
		if err != nil {
			return http.StatusBadRequest
		}
		fmt.Fprintf(resp, "%s, %s times", form.Get("dish"), form.Get("count"))
		return 200
	}

	u, stop := server.StartExample(h)
	defer stop()
	server.Show(http.PostForm(u, url.Values{"dish": {"soup"}, "count": {"3"}}))
	// Output:
	// 200 OK
	// soup, 3 times
}

// A body that is needed whole, or twice, stays in memory up to a size, and goes to a file beyond
// it.
func ExampleRequestLayer_Spool() {
	h := func(req *conn.Request, resp *conn.Response) int {
		body, size, err := req.Layer().Spool(64 << 10)
		if err != nil {
			return http.StatusBadRequest // Spool's error decides whether it is 413, 408 or 503
		}
		lines := 0
		for s := bufio.NewScanner(body); s.Scan(); {
			lines++
		}
		_, _ = body.Seek(0, io.SeekStart)
		resp.Header().Set("Lines", fmt.Sprint(lines))
		resp.SetBodyReader(body, size)
		return 200
	}

	url, stop := server.StartExample(h)
	defer stop()
	answer, err := http.Post(url, "text/plain", strings.NewReader("one\ntwo"))
	if err == nil {
		fmt.Println("lines:", answer.Header.Get("Lines"))
	}
	server.Show(answer, err)
	// Output:
	// lines: 2
	// 200 OK
	// one
	// two
}

// What was flushed has gone out before the handler goes on. The status of such an answer is set
// before the first Flush.
func ExampleResponse_Flush() {
	h := func(req *conn.Request, resp *conn.Response) int {
		resp.SetStatus(http.StatusAccepted)
		for i := range 3 {
			fmt.Fprintf(resp, "step %d\n", i)
			if resp.Flush() != nil || req.Sleep(time.Millisecond) != nil {
				break // the client has left
			}
		}
		return 0
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 202 Accepted
	// step 0
	// step 1
	// step 2
}

// A file goes out by sendfile(2), and is closed afterwards.
func ExampleResponse_SetBodyFile() {
	h := func(req *conn.Request, resp *conn.Response) int {
		f, err := os.Open("testdata/greeting.txt")
		if errors.Is(err, os.ErrNotExist) {
			return http.StatusNotFound
		}
		if err != nil {
			return http.StatusInternalServerError
		}
		info, err := f.Stat()
		if err != nil {
			f.Close()
			return http.StatusInternalServerError
		}
		resp.SetBodyFile(f, 0, info.Size())
		return 200
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 200 OK
	// Hello from a file.
}

// A handler that speaks another protocol takes the connection over. It still runs on its thread, so
// reads and writes yield, and the connection is closed when it returns.
func ExampleResponse_Hijack() {
	h := func(req *conn.Request, resp *conn.Response) int {
		c, r, err := resp.Hijack()
		if err != nil {
			return http.StatusInternalServerError
		}
		fmt.Fprint(c,
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return 0
			}
			fmt.Fprint(c, strings.ToUpper(line))
		}
	}

	url, stop := server.StartExample(h)
	defer stop()
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c,
		"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\nhello\n")
	r := bufio.NewReader(c)
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		log.Fatal(err)
	}
	line, err := r.ReadString('\n')
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Status)
	fmt.Print(line)
	// Output:
	// 101 Switching Protocols
	// HELLO
}
