package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// maxBody is how many bytes an answer may have: it is read into memory.
const maxBody = 1 << 20

// answer is what an upstream has answered.
type answer struct {
	Upstream    string `json:"upstream"`
	Status      int    `json:"status,omitempty"` // 0: there was no answer
	Error       string `json:"error,omitempty"`
	Body        string `json:"body,omitempty"`
	contentType string
}

// ask makes one request. The standard library writes it and reads the response, over a connection
// whose reads and writes yield; they fail when the time is over, when t is canceled, and when the
// client that t works for leaves. For a status other than 2xx it returns the answer and an error.
func ask(t *loop.Thread, address, target string) (answer, error) {
	a := answer{Upstream: address}
	deadline := time.Now().Add(*timeout)
	c, err := stream.Dial(t, "tcp", address, *timeout)
	if err != nil {
		return a, err
	}
	defer c.Close()
	if err := c.SetDeadline(deadline); err != nil {
		return a, err
	}
	out, err := http.NewRequest("GET", "http://"+address+target, nil)
	if err != nil {
		return a, err
	}
	out.Close = true // one request per connection
	if err := out.Write(c); err != nil {
		return a, err
	}
	in, err := http.ReadResponse(bufio.NewReader(c), out)
	if err != nil {
		return a, fmt.Errorf("%s: %w", address, err)
	}
	defer in.Body.Close()
	body, err := io.ReadAll(io.LimitReader(in.Body, maxBody+1))
	if err != nil {
		return a, fmt.Errorf("%s: %w", address, err)
	}
	if len(body) > maxBody {
		return a, fmt.Errorf("%s: answer of more than %d bytes", address, maxBody)
	}
	a.Status, a.Body, a.contentType = in.StatusCode, string(body), in.Header.Get("Content-Type")
	if a.Status/100 != 2 {
		return a, fmt.Errorf("%s: %s", address, in.Status)
	}
	return a, nil
}
