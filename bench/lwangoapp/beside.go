package main

import (
	"net"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/bench/neighbours"
	"github.com/lwango/lwango/loop"
)

// besides adds what this program does beside serving.
func besides(address, backend string) error {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go neighbours.Serve(ln)
	lwango.Handle("/proxy", lwango.HTTP(neighbours.Proxy(backend)))
	lwango.Handle("/burn", func(req *lwango.Request, _ *lwango.Response) int {
		ms := req.Query().Get("ms")
		calls := make([]loop.Source, 2)
		for i := range calls {
			calls[i] = loop.Call(req.Thread, func() (int, error) { neighbours.Burn(ms); return 0, nil })
		}
		if err := req.AwaitAll(time.Minute, calls...); err != nil {
			return 500
		}
		return 200
	})
	return nil
}
