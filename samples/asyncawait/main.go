// Asyncawait answers each request with what another server sends, piece by piece as it arrives.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/stream"
)

func main() {
	address := flag.String("upstream", "",
		"`address` of the server to connect to: host:port or unix:/path")
	lwango.ParseFlags()
	if *address == "" {
		fmt.Fprintln(os.Stderr, "asyncawait: -upstream is missing; -h shows all flags")
		os.Exit(2)
	}
	network := "tcp"
	if path, ok := strings.CutPrefix(*address, "unix:"); ok {
		network, *address = "unix", path
	}

	lwango.Handle("/", func(req *lwango.Request, resp *lwango.Response) int {
		upstream, err := stream.Dial(req.Thread, 5*time.Second, network, *address)
		if errors.Is(err, lwango.ErrDeadlineExceeded) {
			return resp.Error(504, err)
		}
		if err != nil {
			return resp.Error(502, err)
		}
		resp.Header().Set("Content-Type", "application/octet-stream")
		resp.SetBodyReader(upstream, -1) // to its end; then it is closed
		return 200
	})
	lwango.Main()
}
