package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// herdPath is where an application counts the requests for each target, and takes herdNap for an
// answer.
const (
	herdPath = "/files/herd/"
	herdNap  = 100 * time.Millisecond
)

// countHerd answers with how many requests there were for the target, this one included.
func countHerd() http.HandlerFunc {
	var mu sync.Mutex
	asked := make(map[string]int)
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path]++
		n := asked[r.URL.Path]
		mu.Unlock()
		time.Sleep(herdNap)
		w.Header().Set("Server", "nethttp")
		fmt.Fprintf(w, "%08d", n)
	}
}

// loadHerd asks from all connections at once for a target that nobody has asked for before, again
// and again, and finds out how many of these requests have reached the application.
func loadHerd(j job) figures {
	in := make([]*bufio.Reader, j.Conns)
	out := make([]io.Writer, j.Conns)
	for i := range in {
		conn := j.dial()
		defer conn.Close()
		in[i], out[i] = bufio.NewReader(conn), conn
	}
	round := func(n int) (asked int) {
		request := fmt.Appendf(nil, "GET %s%d HTTP/1.1\r\nHost: %s\r\n\r\n", herdPath, n, j.Addr)
		for _, w := range out {
			must(w.Write(request))
		}
		for _, r := range in {
			resp := must(http.ReadResponse(r, nil))
			if resp.StatusCode != http.StatusOK {
				failf("status %s", resp.Status)
			}
			var k int
			must(fmt.Sscanf(string(must(io.ReadAll(resp.Body))), "%08d", &k))
			asked = max(asked, k)
		}
		return asked
	}
	round(0)
	m, asked, rounds := newMeter(j.Group), 0, 0
	for end := time.Now().Add(j.Duration); rounds == 0 || time.Now().Before(end); {
		rounds++
		asked += round(rounds)
	}
	f := m.figures(float64(rounds * j.Conns))
	f["asked"] = float64(asked) / float64(rounds)
	return f
}
