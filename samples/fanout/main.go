// Fanout asks several HTTP servers at once, for the first good answer or for all of them.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/loop"
)

var (
	upstreams []string
	timeout   = flag.Duration("timeout", 2*time.Second, "how long the upstreams may take")
)

func main() {
	flag.Func("upstream", "`host:port` of a server to ask; may be repeated",
		func(address string) error {
			upstreams = append(upstreams, address)
			return nil
		})
	lwango.ParseFlags()
	if len(upstreams) == 0 {
		fmt.Fprintln(os.Stderr, "fanout: -upstream is missing; -h shows all flags")
		os.Exit(2)
	}
	lwango.Handle("/first", first)
	lwango.Handle("/all", all)
	lwango.Main()
}

// first gives the first good answer, and closes the connections to the other upstreams.
func first(req *lwango.Request, resp *lwango.Response) int {
	target := rest(req)
	var found loop.Promise[answer]
	err := req.Scope(func() error {
		var failed []error // no lock: the threads of a loop take turns
		for _, address := range upstreams {
			req.Go(func(t *loop.Thread) error {
				if a, err := ask(t, address, target); err == nil {
					found.Resolve(a)
				} else if failed = append(failed, err); len(failed) == len(upstreams) {
					found.Reject(errors.Join(failed...))
				}
				return nil // an error would end the others
			})
		}
		_, err := found.Await(req.Thread, *timeout)
		req.Cancel() // ends the waits of those that still ask
		return err
	}) // all of them have ended here
	if err != nil {
		return failure(err)
	}
	a, _ := found.Value()
	if a.contentType != "" {
		resp.Header().Set("Content-Type", a.contentType)
	}
	resp.Header().Set("X-Upstream", a.Upstream)
	resp.WriteString(a.Body)
	return a.Status
}

// all says in JSON what each of the upstreams has answered. One good answer is a success.
func all(req *lwango.Request, resp *lwango.Response) int {
	target := rest(req)
	var asked []*loop.Promise[answer]
	for _, address := range upstreams {
		asked = append(asked, loop.Go(req.Thread, func(t *loop.Thread) (answer, error) {
			return ask(t, address, target)
		}))
	}
	answers, errs := loop.AwaitAll(req.Thread, -1, asked...) // ask has its own limit
	failed := 0
	for i, err := range errs {
		if err != nil {
			answers[i].Error = err.Error()
			failed++
		}
	}
	text, err := json.MarshalIndent(answers, "", "\t")
	if err != nil {
		return failure(err)
	}
	resp.Header().Set("Content-Type", "application/json")
	resp.SetBody(append(text, '\n'))
	if failed == len(upstreams) { // or the client has left
		return failure(errors.Join(errs...))
	}
	return 200
}

// rest is what the request has behind /first or /all, for which the upstreams are asked.
func rest(req *lwango.Request) string {
	u := url.URL{Path: req.SubPath(), RawQuery: req.RawQuery()}
	return u.RequestURI()
}

// failure is the status of a request that no upstream has answered well.
func failure(err error) int {
	slog.Warn("no good answer", "error", err)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 504
	}
	return 502
}
