package cachestore_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/content/cachestore"
)

// BenchmarkMiss is what the store takes of a miss, in two parts: before the application is asked,
// and when its answer is there. 64 are asked for at a time, the store is full, and what else a
// server does between has taken the processor's nearer caches.
func BenchmarkMiss(b *testing.B) {
	const memory, flying = 64 << 20, 64
	s := store(b, memory)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cpu := func() time.Duration { // other programs' time does not count
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
			b.Fatal(err)
		}
		return time.Duration(t.Nano())
	}
	var meta cachestore.Meta
	head := cachestore.Head{Status: 200, Fields: "Content-Type: text/plain\r\n" +
		"Date: Mon, 01 Jan 2024 00:00:00 GMT\r\n" +
		"Cache-Control: max-age=3600\r\nServer: application\r\n", Meta: &meta}
	body := []byte("Hello, world!")
	other := make([]uint64, 4<<20/8)
	fills := make([]cachestore.Fill, flying)
	keys := make([][]byte, flying)
	var ask, keep time.Duration
	sum, n := uint64(0), 0
	round := func() {
		for i := range keys {
			keys[i] = append(keys[i][:0], "http://127.0.0.1/web?"...)
			keys[i] = append(strconv.AppendInt(keys[i], int64(n), 10), "\nsite\n/\n\n\nx-host:%d"...)
			n++
		}
		for i := 0; i < len(other); i += 8 {
			sum += other[i]
		}
		began := cpu()
		for i := range fills {
			key := s.Key(keys[i])
			var space [4]*cachestore.Object
			seen := s.Find(nil, key, space[:0])
			if _, f := s.BeginLed(key, seen, nil, &fills[i], nil); f == nil {
				b.Fatal("there is something")
			}
		}
		ask += cpu() - began
		for i := 0; i < len(other); i += 8 {
			sum += other[i]
		}
		began = cpu()
		for i := range fills {
			if _, o := fills[i].Whole(head, body); o == nil {
				b.Fatal("it is not kept")
			}
			fills[i].Release()
			fills[i] = cachestore.Fill{}
		}
		keep += cpu() - began
	}
	for n < memory/256 {
		round()
	}
	ask, keep = 0, 0
	for i := 0; i < b.N; i += flying {
		round()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(ask.Nanoseconds())/float64(b.N), "ns/ask")
	b.ReportMetric(float64(keep.Nanoseconds())/float64(b.N), "ns/keep")
	_ = sum
}
