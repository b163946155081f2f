// Fanout asks several HTTP servers at once, for the first good answer or for all of them.
package main

import (
	"errors"
	"flag"
	"fmt"
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

// askAll begins to ask all of the upstreams.
func askAll(req *lwango.Request) []*loop.Promise[answer] {
	u := url.URL{Path: req.SubPath(), RawQuery: req.RawQuery()} // what is behind /first or /all
	target := u.RequestURI()
	asked := make([]*loop.Promise[answer], len(upstreams))
	for i, address := range upstreams {
		asked[i] = loop.Go(req.Thread, func(t *loop.Thread) (answer, error) {
			return ask(t, address, target)
		})
	}
	return asked
}

// first gives the first good answer, and closes the connections to the other upstreams.
func first(req *lwango.Request, resp *lwango.Response) int {
	a, err := loop.First(req.Thread, *timeout, askAll(req)...)
	if err != nil {
		return resp.Error(failure(err), err)
	}
	if a.contentType != "" {
		resp.Header().Set("Content-Type", a.contentType)
	}
	resp.Header().Set("X-Upstream", a.Upstream)
	resp.WriteString(a.Body)
	return a.Status
}

// all says in JSON what each of the upstreams has answered. One good answer is a success.
func all(req *lwango.Request, resp *lwango.Response) int {
	answers, errs := loop.Collect(req.Thread, *timeout, askAll(req)...)
	failed := 0
	for i, err := range errs {
		if err != nil {
			answers[i].Upstream, answers[i].Error = upstreams[i], err.Error()
			failed++
		}
	}
	status := 200
	if failed == len(upstreams) { // or the client has left
		status = failure(errors.Join(errs...))
	}
	return resp.JSON(status, answers)
}

// failure is the status of a request that no upstream has answered well.
func failure(err error) int {
	if errors.Is(err, lwango.ErrDeadlineExceeded) {
		return 504
	}
	return 502
}
