package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/bench/tasks"
	"golang.org/x/net/http2/hpack"
)

// variedRequests is how many requests differ from each other. Their fields are more than a table of
// HPACK holds, so that those of one are gone when it comes again.
const variedRequests = 512

// varied makes requests as many browsers send them to many pages, ten fields each beside the four
// of HTTP/2: no value of a field is that of all requests, nor is a field of one the same as in the
// next as a rule.
func (j job) varied() (requests [][]hpack.HeaderField) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range variedRequests {
		pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
		kind := random.IntN(4)
		version := fmt.Sprint(120 + random.IntN(24))
		agent := pick(
			"Mozilla/5.0 (X11; Linux x86_64; rv:"+version+".0) Gecko/20100101 Firefox/"+version+".0",
			"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "+
				"Chrome/"+version+".0.0.0 Safari/537.36",
		)
		requests = append(requests, append(
			j.get(fmt.Sprintf("%s?page=%d&part=%x", j.Path, i, random.Uint32())),
			pairs(
				"user-agent", agent,
				"accept", [...]string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
					"image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5", "text/css,*/*;q=0.1",
					"*/*"}[kind],
				"accept-language", pick("de", "en-US", "fr-CH", "pt-BR", "cs")+",en;q=0."+pick("7", "5", "3"),
				"accept-encoding", pick("identity", "identity, gzip;q=0", "identity, br;q=0"),
				"referer", fmt.Sprintf("https://www.example.org/articles/2026/%d/page-%d.html", i%12+1,
					random.IntN(1000)),
				"cookie", fmt.Sprintf("session=%016x%016x; theme=%s", random.Uint64(), random.Uint64(),
					pick("dark", "light")),
				"sec-fetch-dest", [...]string{"document", "image", "style", "script"}[kind],
				"sec-fetch-mode", [...]string{"navigate", "no-cors", "no-cors", "cors"}[kind],
				"sec-fetch-site", pick("same-origin", "same-site", "cross-site", "none"),
				"priority", [...]string{"u=0, i", "u=4, i", "u=2", "u=1"}[kind],
			)...))
	}
	return requests
}

// loadVaried asks on each stream as fast as the server answers. Each connection has a goroutine.
func loadVaried(j job) figures {
	j.verifyHTTP2()
	config, requests := j.trust2(), j.varied()
	var answers atomic.Int64
	failed := make(chan error, j.Conns)
	for i := range j.Conns {
		w := j.wire2(config, make([]byte, longestFrame+1<<10))
		defer w.Close()
		next := i * len(requests) / j.Conns
		for range j.Streams {
			s := new(stream2)
			ask := func() {
				w.request(s, true, requests[next%len(requests)])
				next++
			}
			s.end = func() error {
				if s.size != int(j.Size) {
					return fmt.Errorf("an answer of %d bytes", s.size)
				}
				answers.Add(1)
				ask()
				return nil
			}
			ask()
		}
		go func() {
			_, err := attempt(func(w *wire2) (none struct{}) {
				for {
					check(w.turn())
				}
			}, w)
			failed <- err
		}()
	}
	during := func(d time.Duration) {
		select {
		case err := <-failed:
			check(err)
		case <-time.After(d):
		}
	}
	during(j.Warmup)
	before, m := answers.Load(), newMeter(j.Group)
	during(j.Duration)
	n := answers.Load() - before
	if n == 0 {
		failf("nothing was answered in %v", j.Duration)
	}
	return m.figures(float64(n))
}

// loadWaiting asks on one stream, for the next when the last is answered: first alone, then while
// handlers sleep on the connection's other streams.
func loadWaiting(j job) figures {
	j.verifyHTTP2()
	alone, f := j.oneByOne(0), j.oneByOne(j.Streams-1)
	f["aloneCPU"], f["timesCPU"] = alone["cpu"], f["cpu"]/alone["cpu"]
	f["alone99"], f["times99"] = alone["latency99"], f["latency99"]/alone["latency99"]
	return f
}

func (j job) oneByOne(asleep int) figures {
	c := newClient2(j)
	defer c.shut()
	l := c.connect(nil)
	for range asleep {
		s := &stream2{end: func() error { return errors.New("a handler that should sleep has answered") }}
		l.request(s, true, j.get(sleepTarget(2*(j.Warmup+j.Duration)+time.Hour)))
	}
	for all := false; !all; { // one more handler says how many sleep
		var body []byte
		ended := false
		l.request(&stream2{
			take: func(p []byte) error { body = append(body, p...); return nil },
			end:  func() error { ended = true; return nil },
		}, true, j.get(sleepTarget(0)))
		check(c.flush(l))
		if !c.until(c.Patience, func() bool { return ended }) || c.now() > c.Patience {
			failf("%q handlers sleep, want %d", body, asleep)
		}
		_, n := parseSleep(string(body))
		all = n == asleep+1
	}
	latency, due, fields := newHistogram(), time.Duration(0), j.get(j.Path)
	s := new(stream2)
	ask := func() {
		due = c.now()
		l.request(s, true, fields)
	}
	s.end = func() error {
		latency.add(c.now()-due, 1)
		c.answers++
		ask()
		return nil
	}
	ask()
	check(c.flush(l))
	c.run(j.Warmup)
	latency.Reset()
	c.answers = 0
	m := newMeter(j.Group)
	c.run(j.Duration)
	if c.answers == 0 {
		failf("nothing was answered in %v", j.Duration)
	}
	f := m.figures(float64(c.answers))
	f.quantiles("latency", latency)
	return f
}

func sleepTarget(d time.Duration) string {
	return job{load: load{Path: tasks.SleepPath}}.sleepPath(d)
}

// loadBulk asks for hello at a fixed rate, on the connection by which files come on other streams.
// A latency counts from the moment that the request was due.
func loadBulk(j job) figures {
	small := j
	small.Path, small.Size = "/", int64(len(hello))
	small.verifyHTTP2()
	j.verifyHTTP2()
	c := newClient2(j)
	defer c.shut()
	latency, bulk := newHistogram(), 0
	every := float64(time.Second) / j.Rate
	due := func(i int) time.Duration { return time.Duration(float64(i) * every) }
	var l *link2
	next, arrivals, under := 0, 0, 0
	probe := func() error {
		for ; next < arrivals && due(next) <= c.now(); next++ {
			i, s := next, new(stream2)
			s.end = func() error {
				latency.add(c.now()-due(i), 1)
				c.answers, under = c.answers+1, under-1
				return nil
			}
			under++
			l.request(s, true, j.get(small.Path))
		}
		return nil
	}
	l = c.connect(probe)
	body, fields := j.body(), j.get(j.Path)
	for range j.Streams {
		s := new(stream2)
		s.take = func(p []byte) error {
			bulk += len(p)
			if at := s.size - len(p); s.size > len(body) || !bytes.Equal(p, body[at:s.size]) {
				return fmt.Errorf("wrong bytes after %d", at)
			}
			return nil
		}
		s.end = func() error {
			if s.size != len(body) {
				return fmt.Errorf("a file of %d bytes", s.size)
			}
			l.request(s, true, fields)
			return nil
		}
		l.request(s, true, fields)
	}
	check(c.flush(l))
	c.run(j.Warmup)
	bulk, arrivals = 0, max(int(j.Duration.Seconds()*j.Rate), 1)
	m := newMeter(j.Group)
	c.start = m.start
	for limit := j.Duration + j.Patience; next < arrivals || under > 0; {
		if c.now() > limit {
			failf("%d of %d requests have no answer", arrivals-next+under, arrivals)
		}
		wait := limit - c.now()
		if next < arrivals {
			wait = due(next) - c.now()
		}
		check(c.poll(max(wait, 0)))
		check(probe())
		check(c.flush(l))
	}
	f := m.figures(float64(c.answers))
	f["bulk"] = mebi(int64(bulk)) / time.Since(m.start).Seconds()
	f.quantiles("latency", latency)
	return f
}

// loadIdle2 is loadIdle for connections of HTTP/2.
func loadIdle2(j job) figures {
	j.verifyHTTP2()
	config, buf := j.trust2(), make([]byte, longestFrame)
	return idle(j, func() *wire2 { return j.wire2(config, buf) }, func(w *wire2) {
		if body := w.ask(j.get(j.Path)); body != string(j.body()) {
			failf("an answer of %.40q", body)
		}
	}, func(w *wire2) { w.Close() })
}

// grpcFields are those of a call, and grpcMessage is one of n bytes, without compression.
func (j job) grpcFields() []hpack.HeaderField {
	return pairs(":method", http.MethodPost, ":scheme", "http", ":path", j.Path,
		":authority", j.Addr, "content-type", "application/grpc", "user-agent", "bench",
		"te", "trailers", "grpc-timeout", "60S")
}

func grpcMessage(n int64) []byte {
	return append([]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, letters(int(n))...)
}

// loadGRPC calls on each stream as fast as the server answers. The message comes back.
func loadGRPC(j job) figures {
	message := grpcMessage(j.Size)
	j.verifyGRPC(message)
	c := newClient2(j)
	defer c.shut()
	fields := j.grpcFields()
	for range j.Conns {
		l := c.connect(nil)
		for range j.Streams {
			s := new(stream2)
			call := func() {
				l.request(s, false, fields)
				l.data(s, true, message)
			}
			s.take = func(p []byte) error {
				if at := s.size - len(p); s.size > len(message) || !bytes.Equal(p, message[at:s.size]) {
					return fmt.Errorf("wrong bytes after %d", at)
				}
				return nil
			}
			s.end = func() error {
				if s.size != len(message) {
					return fmt.Errorf("an answer of %d bytes", s.size)
				}
				c.answers++
				call()
				return nil
			}
			call()
		}
		check(c.flush(l))
	}
	return c.byItself(c.reactor, &c.answers)
}
