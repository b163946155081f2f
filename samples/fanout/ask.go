package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/loop"
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

// ask makes one request. Its waits fail when the time is over, when t is canceled, and when the
// client that t works for leaves. For a status other than 2xx it returns the answer and an error.
func ask(t *loop.Thread, address, target string) (answer, error) {
	a := answer{Upstream: address}
	in, err := client.Do(t, *timeout, &client.Request{
		URL: "http://" + address + target, MaxBody: maxBody,
	})
	if err != nil {
		return a, err
	}
	body, err := io.ReadAll(in.Body)
	if err != nil {
		return a, fmt.Errorf("%s: %w", address, err)
	}
	a.Status, a.Body, a.contentType = in.Status, string(body), in.Header.Get("Content-Type")
	if a.Status/100 != 2 {
		return a, fmt.Errorf("%s: %d %s", address, a.Status, http.StatusText(a.Status))
	}
	return a, nil
}
