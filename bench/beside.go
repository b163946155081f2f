package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/lwango/lwango/bench/neighbours"
)

// neighbour is what a server does beside, or what is asked of it while it does something else: one figure is how long
// answers to a probe take, at a fixed rate, and the other what the server does meanwhile.
type neighbour struct {
	path  string  // of the probe
	rate  float64 // of the probe, requests/s
	plain bool    // it is for another listener of the program, with a plain goroutine for each connection
	load  float64 // requests/s for hello meanwhile; 0: two functions compute meanwhile, off the loops
}

// Where the programs that are measured have what the probes ask for.
const (
	burnPath  = "/burn" // ?ms=N: two functions compute for so long, then the answer
	proxyPath = "/proxy"
)

// probeConns are enough for a probe never to wait for a connection unless the server is late.
const probeConns = 8

// runBeside measures the probe.
func runBeside(ctx context.Context, env *environment, w work, srv *server, duration time.Duration) (openLoopReport, error) {
	n := w.neighbour
	probed := w
	probed.path, probed.conns = n.path, probeConns
	target := *srv
	if n.plain {
		target.addr = srv.beside
	}
	var meanwhile sync.WaitGroup
	var loadErr error
	meanwhile.Go(func() {
		if n.load > 0 {
			_, loadErr = runOpenLoop(ctx, env, w, srv, n.load, duration+duration/2)
		} else {
			loadErr = askToBurn(ctx, srv.addr, duration+duration/2)
		}
	})
	time.Sleep(duration / 4) // by then it is under way, and it outlasts the probe
	report, err := runOpenLoop(ctx, env, probed, &target, n.rate, duration)
	meanwhile.Wait()
	if err == nil {
		err = loadErr
	}
	return report, err
}

// askToBurn returns when the functions have.
func askToBurn(ctx context.Context, addr string, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d+verifyLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s%s?ms=%d", addr, burnPath, d.Milliseconds()), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %s", burnPath, resp.Status)
	}
	return nil
}

// verifyBeside asks once for hello and once for the probe.
func verifyBeside(srv *server, w work) error {
	if err := verify(srv.addr, w); err != nil {
		return err
	}
	w.path = w.neighbour.path
	if w.neighbour.plain {
		return verify(srv.beside, w)
	}
	return verify(srv.addr, w)
}

func measureBeside(ctx context.Context, env *environment, s settings, w work, srv *server, r round) error {
	report, err := runBeside(ctx, env, w, srv, s.duration)
	if err != nil {
		return err
	}
	r.set(perSecond, float64(report.Answers)/s.duration.Seconds())
	r.set(latency50, micro(report.P50))
	r.set(latency90, micro(report.P90))
	r.set(latency99, micro(report.P99))
	r.set(lateMost, micro(report.Max))
	r.set(busyPart, report.CPU.total().Seconds()/s.duration.Seconds())
	return nil
}

// serveBesideNetHTTP gives net/http's server what the works of this kind ask for.
func serveBesideNetHTTP(mux *http.ServeMux, beside, backend string) error {
	ln, err := net.Listen("tcp", beside)
	if err != nil {
		return err
	}
	go neighbours.Serve(ln)
	mux.Handle(proxyPath, neighbours.Proxy(backend))
	mux.HandleFunc(burnPath, func(w http.ResponseWriter, r *http.Request) {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { neighbours.Burn(r.URL.Query().Get("ms")) })
		}
		both.Wait()
	})
	return nil
}
