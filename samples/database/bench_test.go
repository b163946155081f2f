package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/lwangotest"
)

// BenchmarkDrivers compares each driver under a handler of lwango with the same driver under one of
// net/http, where the request's goroutine waits, and both with an answer that asks no database. The
// figure is cpu-µs/op, of which the clients of this process take the same part everywhere.
func BenchmarkDrivers(b *testing.B) {
	stores, _ := opened(b)
	mux := stores.mux(wait.Patience)
	mux.Handle("GET /none/items/{id}", func(req *lwango.Request, resp *lwango.Response) int {
		return resp.JSON(200, item{7, "a name"})
	})
	native := lwangotest.Start(b, mux.Serve)
	std := http.NewServeMux()
	for name, find := range map[string]func(context.Context, int64) (item, error){
		"none":  func(_ context.Context, id int64) (item, error) { return item{id, "a name"}, nil },
		"sql":   stores.findSQL,
		"pgx":   stores.findPgx,
		"redis": stores.findRedis,
	} {
		std.Handle("GET /"+name+"/items/{id}", onGoroutine(find))
	}
	plain := httptest.NewServer(std)
	defer plain.Close()
	for _, d := range []string{"pgx", "redis"} {
		if a := native.Do("PUT", "/"+d+"/items/7", "a name"); a.StatusCode != 204 {
			b.Fatal(a.Status)
		}
	}
	for _, d := range append([]string{"none"}, drivers...) {
		if d != "thread" {
			b.Run(d+"/nethttp", func(b *testing.B) { load(b, plain.Listener.Addr().String(), d) })
		}
		b.Run(d+"/lwango", func(b *testing.B) { load(b, native.Addr, d) })
	}
}

// onGoroutine is driver.get for net/http.
func onGoroutine(find func(context.Context, int64) (item, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), wait.Patience)
		defer cancel()
		it, err := find(ctx, id)
		if err != nil {
			http.Error(w, err.Error(), 502)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(it)
	}
}

// load asks for b.N items on 16 connections.
func load(b *testing.B, addr, driver string) {
	const clients = 16
	request := fmt.Sprintf("GET /%s/items/7 HTTP/1.1\r\nHost: %s\r\n\r\n", driver, addr)
	var all sync.WaitGroup
	cpu := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := cpu()
	b.ReportAllocs()
	for k := range clients {
		all.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			in := bufio.NewReader(c)
			var length int
			for i := k; i < b.N; i += clients {
				if _, err := io.WriteString(c, request); err != nil {
					b.Error(err)
					return
				}
				line, err := in.ReadSlice('\n')
				if err != nil || !strings.HasPrefix(string(line), "HTTP/1.1 200 ") {
					b.Errorf("%q, %v", line, err)
					return
				}
				for len(line) > 2 {
					if line, err = in.ReadSlice('\n'); err != nil {
						b.Error(err)
						return
					}
					if n, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
						length, _ = strconv.Atoi(strings.TrimSpace(n))
					}
				}
				if _, err := in.Discard(length); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/1000/float64(b.N), "cpu-µs/op")
}
