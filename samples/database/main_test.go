package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/lwangotest"
)

func TestMain(m *testing.M) { lwangotest.Main(m) }

// opened are the databases of a test.
func opened(t testing.TB) (*stores, *broker.Broker) {
	t.Helper()
	url, redis := startPostgres(t), broker.Start(t)
	s := must.Get(open(context.Background(), url, strings.TrimPrefix(redis.URL(), "redis://")))(t)
	t.Cleanup(s.close)
	return s, redis
}

var drivers = []string{"sql", "pgx", "redis", "thread"}

func TestDatabase(t *testing.T) {
	stores, redis := opened(t)
	mux := stores.mux(wait.Patience)
	mux.Handle("GET /hello", func(_ *lwango.Request, resp *lwango.Response) int {
		return resp.Text(200, "hello")
	})

	t.Run("items", func(t *testing.T) {
		s := lwangotest.Start(t, mux.Serve)
		for i, d := range drivers {
			path := fmt.Sprintf("/%s/items/%d", d, i)
			name := strings.Repeat("ä'", i+1)
			for _, step := range []struct {
				method, path, body string
				status             int
				text               string
			}{
				{"GET", path, "", 404, "there is no such item\n"},
				{"PUT", path, "first", 204, ""},
				{"PUT", path, name, 204, ""},
				{"GET", path, "", 200, fmt.Sprintf(`{"id":%d,"name":"%s"}`, i, name)},
				{"GET", "/" + d + "/items/x", "", 400, ""},
				{"PUT", "/" + d + "/items/x", "", 400, ""},
				{"PUT", path, strings.Repeat("x", maxName+1), 413, ""},
			} {
				a := s.Do(step.method, step.path, step.body)
				if a.StatusCode != step.status ||
					step.text != "" && strings.TrimSpace(a.Text) != strings.TrimSpace(step.text) {
					t.Errorf("%s %s: %s %q", step.method, step.path, a.Status, a.Text)
				}
			}
		}
		s.Do("PUT", "/pgx/items/9", "p")
		s.Do("PUT", "/redis/items/9", "r")
		if a := s.Get("/both/items/9"); strings.TrimSpace(
			a.Text) != `[{"id":9,"name":"p"},{"id":9,"name":"r"}]` {
			t.Error(a.Status, a.Text)
		}
		if a := s.Get("/both/items/1"); a.StatusCode != 404 {
			t.Error(a.Status, a.Text)
		}
	})

	t.Run("many", func(t *testing.T) {
		s := lwangotest.Start(t, mux.Serve)
		var all sync.WaitGroup
		for k, d := range drivers {
			for j := range 5 {
				all.Go(func() {
					for i := range 20 {
						id := 1000*k + 100*j + i
						path := fmt.Sprintf("%s/%s/items/%d", s.URL, d, id)
						if _, err := ask(s, "PUT", path, fmt.Sprint("name ", id)); err != nil {
							t.Error(err)
						} else if got, err := ask(s, "GET", path, ""); err != nil ||
							!strings.Contains(got, fmt.Sprintf(`"name %d"`, id)) {
							t.Error(got, err)
						}
					}
				})
			}
		}
		all.Wait()
	})

	// A database that does not answer: the request has its answer in time, and the loop serves others.
	t.Run("stalls", func(t *testing.T) {
		s := lwangotest.Start(t, mux.Serve)
		for _, d := range drivers { // there are connections
			s.Do("PUT", "/"+d+"/items/1", "x")
		}
		hasty := lwangotest.Start(t, stores.mux(50*time.Millisecond).Serve)
		tx := must.Get(stores.pgx.Begin(context.Background()))(t)
		must.Get(tx.Exec(context.Background(), "LOCK TABLE items"))(t)
		redis.Signal(syscall.SIGSTOP)
		for _, d := range drivers {
			if a := hasty.Get("/" + d + "/items/1"); a.StatusCode != 504 {
				t.Errorf("%s: %s %q", d, a.Status, a.Text)
			}
		}
		for _, d := range drivers {
			waiting := s.Dial()
			waiting.Send("GET /" + d + "/items/1 HTTP/1.1\r\nHost: a\r\n\r\n")
			if a := s.Get("/hello"); a.Text != "hello" {
				t.Error(a.Status)
			}
			if d == "sql" || d == "pgx" {
				locked(t, stores, 1)
			}
			waiting.Close() // its query ends with it
			if d == "sql" || d == "pgx" {
				locked(t, stores, 0)
			}
		}
		redis.Signal(syscall.SIGCONT)
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
		for _, d := range drivers {
			if a := s.Get("/" + d + "/items/1"); a.StatusCode != 200 {
				t.Errorf("%s, later: %s %q", d, a.Status, a.Text)
			}
		}
	})

	// Connections that have ended while they were kept are replaced without notice.
	t.Run("restart", func(t *testing.T) {
		s := lwangotest.Start(t, mux.Serve)
		for range 3 {
			s.Do("PUT", "/thread/items/1", "x")
		}
		redis.Kill()
		if a := s.Get("/thread/items/1"); a.StatusCode != 502 {
			t.Error(a.Status)
		}
		redis.Restart()
		for _, d := range []string{"redis", "thread"} {
			if a := s.Get("/" + d + "/items/1"); a.StatusCode != 200 {
				t.Errorf("%s: %s %q", d, a.Status, a.Text)
			}
		}
	})
}

// locked waits until so many queries wait for a lock.
func locked(t *testing.T, s *stores, want int) {
	t.Helper()
	wait.Until(t, fmt.Sprint(want, " queries that wait"), func() bool {
		var n int
		err := s.pgx.QueryRow(context.Background(),
			"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").Scan(&n)
		return err == nil && n == want
	})
}

// ask is Server.Do for any goroutine.
func ask(s *lwangotest.Server, method, url, body string) (string, error) {
	out, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	resp, err := s.Client().Do(out)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode >= 300 {
		err = errors.Join(err, errors.New(resp.Status))
	}
	return string(text), err
}
