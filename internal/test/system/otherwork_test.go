package system_test

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/loop"
)

// neighbours is a program that does other things beside serving: a goroutine for each connection of
// another listener, functions that compute off the loops, and a reverse proxy. With -std it is
// net/http that serves.
func neighbours() {
	std := flag.Bool("std", false, "serve by net/http")
	address := flag.String("l", "", "listen at this `ADDRESS`") // lwango's own, but for net/http
	backend := flag.String("backend", "", "have /proxy passed on to this `ADDRESS`")
	if slices.Contains(os.Args, "-std") {
		flag.Parse()
	} else {
		lwango.ParseFlags()
	}

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	slog.Info("echo", "address", ln.Addr().String())
	go echo(ln)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: *backend})

	if *std {
		http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "hello")
		})
		if *backend != "" {
			http.Handle("/proxy", proxy)
		}
		http.HandleFunc("/burn", func(http.ResponseWriter, *http.Request) {
			var both sync.WaitGroup
			for range 2 {
				both.Go(burn)
			}
			both.Wait()
		})
		ln, err := net.Listen("tcp", *address)
		if err != nil {
			panic(err)
		}
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM)
		go func() {
			<-end
			os.Exit(0)
		}()
		slog.Info("listening", "address", ln.Addr().String())
		panic(http.Serve(ln, nil))
	}
	lwango.Handle("/", func(_ *lwango.Request, resp *lwango.Response) int {
		resp.WriteString("hello")
		return 200
	})
	lwango.Handle("/proxy", lwango.HTTP(proxy))
	lwango.Handle("/burn", func(req *lwango.Request, _ *lwango.Response) int {
		calls := make([]loop.Source, 2)
		for i := range calls {
			calls[i] = loop.Call(req.Thread, func() (int, error) { burn(); return 0, nil })
		}
		if err := req.AwaitAll(time.Minute, calls...); err != nil {
			panic(err)
		}
		return 200
	})
	os.Exit(lwango.Run(context.Background(), ""))
}

func echo(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(struct{ io.Writer }{c}, c)
		}()
	}
}

// burn computes for burnTime.
func burn() {
	for end := time.Now().Add(burnTime); time.Now().Before(end); {
		for range 1000 {
			sink.Add(1)
		}
	}
}

var sink atomic.Uint64

const (
	// how long one server is measured before it is the other's turn
	round    = 500 * time.Millisecond
	burnTime = round
)

// TestBeside measures what a program's other work and its loops do to each other, against net/http
// in the same moments: what else the machine is doing meets both. A figure that misses its bound is
// measured again a few times.
func TestBeside(t *testing.T) {
	ci.Only(t, "measures for some seconds")
	ci.Without(t, invariants.Enabled, "our program shortens its reads and writes, net/http does not")
	t.Setenv("GOMAXPROCS", "2") // two loops, however many CPUs there are
	backend := startNeighbours(t, "-std")
	ours := startNeighbours(t, "-backend", backend.Address)
	theirs := startNeighbours(t, "-std", "-backend", backend.Address)

	for _, test := range []struct {
		name     string
		quantile float64
		bound    float64 // ours to theirs
		measure  func(t *testing.T, p neighbour) []time.Duration
	}{
		{"goroutine echo beside hello", 0.9, 2, func(t *testing.T, p neighbour) []time.Duration {
			defer p.load(t)()
			return p.probe(t, p.echo, "ping", "ping", 2*time.Millisecond)
		}},
		{"hello beside functions that compute", 0.5, 0.2,
			func(t *testing.T, p neighbour) []time.Duration {
				burning := make(chan error, 1)
				go func() {
					resp, err := http.Get("http://" + p.Address + "/burn")
					if err == nil {
						resp.Body.Close()
					}
					burning <- err
				}()
				defer func() {
					if err := <-burning; err != nil {
						t.Error(err)
					}
				}()
				return p.probe(t, p.Address, rawGet("/"), "hello", 20*time.Millisecond)
			}},
		{"reverse proxy beside hello", 0.5, 2, func(t *testing.T, p neighbour) []time.Duration {
			defer p.load(t)()
			return p.probe(t, p.Address, rawGet("/proxy"), "hello", 10*time.Millisecond)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var ratios []float64
			for try := 1; ; try++ {
				a := quantile(test.measure(t, ours), test.quantile)
				b := quantile(test.measure(t, theirs), test.quantile)
				ratios = append(ratios, float64(a)/float64(b))
				slices.Sort(ratios)
				t.Logf("p%.0f: ours %v, net/http's %v", 100*test.quantile, a, b)
				if try < 3 {
					continue
				}
				if middle := ratios[(try-1)/2]; middle <= test.bound {
					return
				} else if try == 9 {
					t.Fatalf("median of %d: %.2f x net/http, want at most %.2f", try, middle,
						test.bound)
				}
			}
		})
	}
}

func rawGet(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }

// quantile is of the sorted values.
func quantile(d []time.Duration, q float64) time.Duration {
	slices.Sort(d)
	return d[int(q*float64(len(d)-1))]
}

type neighbour struct {
	*program.Server
	echo string // address
}

func startNeighbours(t *testing.T, args ...string) neighbour {
	s := program.Start(t, args...)
	return neighbour{s, s.Logged(t, `msg=echo address=(\S+)`)[1]}
}

const (
	loadRate  = 7000 // requests/s
	loadConns = 4
)

// load asks for hello at loadRate until the end.
func (p neighbour) load(t *testing.T) (end func()) {
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range loadConns {
		c := dial(t, p.Address)
		all.Go(func() {
			defer c.Close()
			begin := time.Now()
			for i := range time.Duration(math.MaxInt64) {
				select {
				case <-stop:
					return
				default:
				}
				time.Sleep(time.Until(begin.Add(i * loadConns * time.Second / loadRate)))
				if err := exchange(c, rawGet("/"), "hello"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() {
		close(stop)
		all.Wait()
	}
}

// probe asks every interval for a round, and returns how long each answer took.
func (p neighbour) probe(t *testing.T, addr, question, answer string,
	every time.Duration) (took []time.Duration) {
	c := dial(t, addr)
	defer c.Close()
	for begin := time.Now(); time.Since(begin) < round; time.Sleep(every) {
		asked := time.Now()
		must.Do(t, exchange(c, question, answer))
		took = append(took, time.Since(asked))
	}
	return took
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c := must.Dial(t, "tcp", addr)
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// exchange sends the question and reads until the answer has come.
func exchange(c net.Conn, question, answer string) error {
	if _, err := io.WriteString(c, question); err != nil {
		return err
	}
	var buf [1024]byte
	for n := 0; ; {
		m, err := c.Read(buf[n:])
		if err != nil {
			return err
		}
		if n += m; n >= len(answer) && string(buf[n-len(answer):n]) == answer {
			return nil
		}
	}
}
