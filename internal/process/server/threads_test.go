package server

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// TestThreads: there are more processors than loops, whatever `threads` says, and the next server
// of the process has as many loops as the one before.
func TestThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	cpus := loop.Reserve(0)
	for _, threads := range []int{0, 0, cpus + 2, 1, 0} {
		source := config.Source{Modules: new(handlers.Registry), Listen: []string{"127.0.0.1:0"},
			Logger: logtext.Quiet}
		config := must.Get(source.Parse("", fmt.Sprintf("threads = %d", threads)))(t)
		s := must.Get(Start(source, config))(t)
		loops, processors := len(s.loops), runtime.GOMAXPROCS(0)
		want := threads
		if want == 0 {
			want = cpus
		}
		if loops != want || processors <= loops {
			t.Errorf("threads = %d: %d loops and %d processors, want %d loops and more processors", threads,
				loops, processors, want)
		}
		s.Stop()
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestWorkers: `workers` is how many functions of a loop run at a time.
func TestWorkers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	got := make(chan error, 1)
	var patience time.Duration
	source := config.Source{Modules: new(handlers.Registry), Listen: []string{"127.0.0.1:0"},
		Logger: logtext.Quiet}
	source.Routes = []handlers.Route{{Prefix: "/",
		Handler: func(req *conn.Request, _ *conn.Response) int {
			release := make(chan struct{})
			busy := []*loop.Promise[int]{nil, nil}
			for i := range busy {
				busy[i] = loop.Call(req.Thread, func() (int, error) { <-release; return 0, nil })
			}
			got <- req.Await(patience, func(context.Context) error { return nil })
			close(release)
			for _, p := range busy {
				_, _ = p.Await(req.Thread, -1)
			}
			return 200
		}}}
	for workers, want := range map[int]error{2: loop.ErrNoWorker, 3: nil} {
		if patience = time.Millisecond; want == nil {
			patience = time.Minute
		}
		config := must.Get(source.Parse("", fmt.Sprintf("threads = 1\nworkers = %d", workers)))(t)
		s := must.Get(Start(source, config))(t)
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp := must.Get(client.Get("http://" + s.Addresses()[0]))(t)
		resp.Body.Close()
		if err := <-got; err != want {
			t.Errorf("%d workers: %v, want %v", workers, err, want)
		}
		s.Stop()
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
	}
}
