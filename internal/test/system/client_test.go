package system_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/andybalholm/brotli"

	"github.com/lwango/lwango/internal/test/wait"
)

// asker is a client that keeps its connection.
type asker struct {
	random           *rand.Rand
	network, address string
	conn             net.Conn
	r                *bufio.Reader
	tags             [16]string // the entity tags of files that it has got before
}

// connect makes a connection if there is none. Its time counts anew for each question.
func (c *asker) connect() error {
	if c.conn == nil {
		conn, err := net.Dial(c.network, c.address)
		if err != nil {
			return err
		}
		c.conn, c.r = conn, bufio.NewReader(conn)
	}
	return c.conn.SetDeadline(time.Now().Add(wait.Patience))
}

func (c *asker) drop() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// size is mostly small.
func (c *asker) size() int {
	switch n := c.random.IntN(1000); {
	case n < 100:
		return 0
	case n < 500:
		return c.random.IntN(200)
	case n < 850:
		return c.random.IntN(8 << 10)
	case n < 980:
		return c.random.IntN(64 << 10)
	case n < 999:
		return c.random.IntN(400 << 10)
	}
	return 3 << 20
}

func pick[T any](c *asker, from ...T) T { return from[c.random.IntN(len(from))] }

// question is a request, and what its answer has to be.
type question struct {
	method, target string
	fields         string
	body           []byte // nil: none
	chunked        bool
	expect         bool
	last           bool // the server may close the connection behind the answer

	status int
	id     string // in X-Id
	want   []byte // nil: not looked at
	header map[string]string
}

// question makes one.
func (c *asker) question() (q question) {
	id := c.random.Uint32() >> 1
	q.id, q.status, q.method = fmt.Sprint(id), 200, "GET"
	if pick(c, true, false) {
		q.fields = pick(c, "Accept-Encoding: gzip\r\n", "Accept-Encoding: br, gzip;q=0.5\r\n")
	}
	place := pick(c, "", "/live")
	args := "?id=" + q.id + "&type=" + pick(c, "text/plain", "application/octet-stream")
	switch c.random.IntN(10) {
	case 0, 1, 2:
		n := c.size()
		q.target = fmt.Sprint(place, "/made", args, "&n=", n, "&how=",
			pick(c, "whole", "reader", "unknown", "pieces"))
		q.want = fill(id, n)
	case 3:
		n := c.size()
		q.target, q.want = fmt.Sprint(place, "/fcgi/app", args, "&n=", n), fill(id, n)
	case 4, 5:
		q.method, q.target = "POST", place+pick(c, "/echo", "/fcgi/app")+args
		q.body, q.chunked = fill(id, c.size()), pick(c, true, false)
		q.want = q.body
		q.expect = c.network == "tcp" && len(q.body) > 0 && pick(c, true, false) // nginx drops it
	case 6:
		q.method, q.status = "POST", pick(c, 404, 413, 403, 200)
		q.target = fmt.Sprint(place, "/early", args, "&status=", q.status)
		q.body, q.chunked = fill(id, c.size()), pick(c, true, false)
		q.want, q.last = []byte("early "+q.id), true
	case 7:
		q.method, q.target = "POST", pick(c, "/limited", "/live/limited", "/capped/echo")+args
		q.body, q.want = fill(id, c.random.IntN(2048)), nil
		q.last = true
		if len(q.body) > 1<<10 {
			q.status, q.id = 413, ""
		} else if q.want = q.body; !strings.HasPrefix(q.target, "/capped") {
			q.id = ""
		}
	default:
		c.file(&q, place)
	}
	if q.method == "GET" && q.status != 206 && c.random.IntN(8) == 0 { // HEAD knows no ranges
		q.method = "HEAD"
	}
	return q
}

// file makes one for a file.
func (c *asker) file(q *question, place string) {
	k := c.random.IntN(len(sizes))
	which := 2 * k
	ending := ".txt"
	if pick(c, true, false) {
		which, ending = which+1, ".bin"
	}
	q.id, q.target, q.want = "", fmt.Sprint(place, "/files/f", k, ending), fill(uint32(k), sizes[k])
	switch kind := c.random.IntN(4); {
	case kind == 0:
		q.status, q.target, q.want = 404, q.target+".none", nil
	case kind == 1 && c.tags[which] != "":
		q.status, q.fields, q.want = 304, "If-None-Match: "+c.tags[which]+"\r\n", nil
	case kind == 2 && sizes[k] > 1:
		from := c.random.IntN(sizes[k])
		to := from + c.random.IntN(sizes[k]-from)
		q.fields += fmt.Sprintf("Range: bytes=%d-%d\r\n", from, to)
		q.status, q.want = 206, q.want[from:to+1]
		q.header = map[string]string{
			"Content-Range": fmt.Sprintf("bytes %d-%d/%d", from, to, sizes[k])}
	default:
		q.fields = ""
		q.header = map[string]string{"ETag": c.tags[which]}
	}
}

// wire is the request's head, and its body as it is sent.
func (c *asker) wire(q *question) (head, body []byte) {
	b := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: mixed.test\r\n%s", q.method, q.target, q.fields)
	if q.expect {
		b = append(b, "Expect: 100-continue\r\n"...)
	}
	switch {
	case q.body == nil:
	case !q.chunked:
		b, body = fmt.Appendf(b, "Content-Length: %d\r\n", len(q.body)), q.body
	default:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
		for rest := q.body; len(rest) > 0; {
			n := min(1+c.random.IntN(20_000), len(rest))
			body = fmt.Appendf(body, "%x\r\n%s\r\n", n, rest[:n])
			rest = rest[n:]
		}
		body = append(body, "0\r\n\r\n"...)
	}
	return append(b, "\r\n"...), body
}

// one asks one question, or several at once, and returns the last.
func (c *asker) one() (what string, err error) {
	all := []question{c.question()}
	for len(all) < 4 && all[len(all)-1].body == nil && c.random.IntN(4) == 0 {
		if q := c.question(); q.body == nil {
			all = append(all, q)
		}
	}
	if err := c.connect(); err != nil {
		return "connect", err
	}
	var wire []byte
	for i := range all[:len(all)-1] {
		head, _ := c.wire(&all[i])
		wire = append(wire, head...)
	}
	q := &all[len(all)-1]
	head, body := c.wire(q)
	wire = append(wire, head...)
	if !q.expect {
		wire, body = append(wire, body...), nil
	}
	// An answer may come before all is sent, and then nothing may take the rest.
	conn, sent := c.conn, make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = conn.Write(wire)
	}()
	for i := range all {
		if err := c.answer(&all[i], body); err != nil {
			c.drop()
			<-sent
			return all[i].method + " " + all[i].target + " " + all[i].fields, err
		}
		if c.conn == nil && i < len(all)-1 {
			break // it has closed behind this answer; the others are not answered
		}
	}
	if q.last {
		c.drop()
	}
	<-sent
	return "", nil
}

// answer reads and judges one. body is what is still to be sent when the server asks for it.
func (c *asker) answer(q *question, body []byte) error {
	asked := &http.Request{Method: q.method}
	resp, err := http.ReadResponse(c.r, asked)
	if err == nil && resp.StatusCode == 100 && q.expect {
		if _, err := c.conn.Write(body); err != nil {
			return err
		}
		resp, err = http.ReadResponse(c.r, asked)
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s, after %d bytes: %w", resp.Status, len(text), err)
	}
	if resp.Close {
		c.drop()
	}
	if resp.StatusCode != q.status || resp.Header.Get("X-Id") != q.id {
		return fmt.Errorf("got %s of %q, want %d: %v %.100q", resp.Status, resp.Header.Get("X-Id"),
			q.status, resp.Header, text)
	}
	for name, value := range q.header {
		if got := resp.Header.Get(name); value != "" && got != value {
			return fmt.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	if q.method == "HEAD" || q.status == 304 {
		if len(text) != 0 {
			return fmt.Errorf("a body: %.100q", text)
		}
		return nil
	}
	coding := resp.Header.Get("Content-Encoding")
	switch coding {
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			return err
		}
		if text, err = io.ReadAll(r); err != nil {
			return err
		}
	case "br":
		if text, err = io.ReadAll(brotli.NewReader(bytes.NewReader(text))); err != nil {
			return err
		}
	}
	if q.want != nil && !bytes.Equal(text, q.want) {
		at := 0
		for at < len(text) && at < len(q.want) && text[at] == q.want[at] {
			at++
		}
		return fmt.Errorf("%d bytes (%s), want %d; from byte %d on %.60q, want %.60q", len(text),
			coding, len(q.want), at, text[at:], q.want[at:])
	}
	var k int
	var ending string
	if n, _ := fmt.Sscanf(q.target[strings.LastIndexByte(q.target, '/')+1:], "f%d.%s", &k,
		&ending); n == 2 && q.status == 200 && coding == "" {
		which := 2 * k
		if ending == "bin" {
			which++
		}
		c.tags[which] = resp.Header.Get("ETag")
	}
	return nil
}

// leave begins a request, or takes the beginning of an answer, and closes the connection.
func (c *asker) leave() {
	c.drop()
	if c.connect() != nil {
		return
	}
	defer c.drop()
	place := pick(c, "", "/live")
	switch c.random.IntN(3) {
	case 0:
		_, _ = io.WriteString(c.conn, "GET "+place+"/made?n=100 HTTP/1.1\r\nHos")
	case 1:
		_, _ = io.WriteString(c.conn, "POST "+place+pick(c, "/echo", "/early?status=404", "/fcgi/app")+
			" HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"+string(fill(1, 30_000)))
	default:
		_, _ = io.WriteString(c.conn, "GET "+place+"/made?n=1000000&how="+
			pick(c, "whole", "pieces", "unknown")+" HTTP/1.1\r\nHost: a\r\n\r\n")
		_, _ = c.r.Peek(1)
	}
}
