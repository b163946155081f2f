// Package tasks is what the benchmark's servers do alike: the same code runs on lwango and on
// net/http. In the chat a text message into a room goes to all its members, its sender too, as it
// came; the echo sends it back. Neither compresses.
package tasks

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"sync/atomic"
	"time"
)

// The paths of the works that a server needs code for.
const (
	BridgePath   = "/bridge"
	SleepPath    = "/sleep" // ?ms=N
	ProxyPath    = "/proxy"
	BurnPath     = "/burn"    // ?ms=N: two functions compute for so long
	SpinPath     = "/spin"    // ?ms=N: the http.Handler computes for so long
	ComputePath  = "/compute" // ?ms=N&goroutines=N: so many compute from now on for so long
	EchoPath     = "/ws-echo"
	RoomPath     = "/ws-room"    // ?room=R
	DeflatePath  = "/ws-deflate" // EchoPath with compression, and takeover where there is such
	EventsPath   = "/events"     // ?room=R: what is said there, as an event stream
	SayPath      = "/say"        // ?room=R: Said is said there
	FanOutPath   = "/fanout"     // asks the backend Calls times at once
	CollectPath  = "/collect"
	FormPath     = "/form"     // its file is written to one, and its length is the answer
	UploadPath   = "/upload"   // net/http alone: the answer is the body's length
	DownloadPath = "/download" // net/http alone: so many bytes as the parameter bytes says
	GarbagePath  = "/garbage"  // is collected
	PausesPath   = "/pauses"   // for how long at most, in µs, 99 of 100 collections stop all threads
)

// Server is what Hello answers as.
const Server = "http.Handler"

// Calls is how many requests FanOutPath makes of one.
const Calls = 100

// FanOutLimit is how long they may take.
const FanOutLimit = 10 * time.Second

// FannedOut returns the answer to a request that was fanned out, or an error if one of the texts
// is not the same as the others.
func FannedOut(texts []string) (string, error) {
	for _, text := range texts {
		if text == "" || text != texts[0] || len(texts) != Calls {
			return "", fmt.Errorf("%d texts: %q, %q", len(texts), text, texts[0])
		}
	}
	return texts[0], nil
}

// The rules of the chat.
const (
	Queue        = 64      // messages for a member that does not read; one more ends it
	MessageLimit = 4 << 10 // bytes
	PingEvery    = 30 * time.Second
	DeadAfter    = 40 * time.Second // without a sign of life
	WriteLimit   = 10 * time.Second // for a message to leave
)

// Said is the data of each event.
const Said = "something was said"

// Hello answers as every server of the benchmark does, and sets the fields itself that others have
// from elsewhere.
var Hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Server", Server)
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, "Hello, world!")
})

// TempFile makes a file without a name.
func TempFile() (*os.File, error) {
	f, err := os.CreateTemp("", "bench-form-")
	if err == nil {
		err = os.Remove(f.Name())
	}
	return f, err
}

var sleeping atomic.Int64 // handlers

// Sleep runs a server's own sleep for the query's ms milliseconds and returns the answer: by how
// many microseconds it woke late, and how many handlers slept just before.
func Sleep(ms string, sleep func(time.Duration) error) (string, error) {
	n, err := strconv.Atoi(ms)
	if err != nil {
		return "", err
	}
	d := time.Duration(n) * time.Millisecond
	sleeping.Add(1)
	start := time.Now()
	err = sleep(d)
	late := time.Since(start) - d
	return fmt.Sprint(late.Microseconds(), sleeping.Add(-1)+1), err
}

// Nap is the sleep of a goroutine.
func Nap(d time.Duration) error { time.Sleep(d); return nil }

// Start begins to answer with Hello at an address beside the server's own listener, if there is
// one, with a goroutine for each connection. It gives to handle what any server answers alike. A
// backend is where the proxy passes requests on to.
func Start(beside, backend string, handle func(path string, h http.Handler)) {
	if beside != "" {
		ln, err := net.Listen("tcp", beside)
		if err != nil {
			log.Fatal(err)
		}
		go http.Serve(ln, Hello)
	}
	handle(BridgePath, Hello)
	handle(ProxyPath, proxy(backend))
	handle(CollectPath, http.HandlerFunc(collect))
	handle(GarbagePath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		runtime.GC()
		Hello(w, r)
	}))
	handle(PausesPath, http.HandlerFunc(pauses))
	handle(SpinPath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Burn(r.URL.Query().Get("ms"))
		Hello(w, r)
	}))
	handle(ComputePath, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		n, _ := strconv.Atoi(q.Get("goroutines"))
		for range n {
			go Burn(q.Get("ms"))
		}
		Hello(w, r)
	}))
}

// collect answers when no garbage is left and the kernel has the memory back: a sync.Pool outlives
// one collection, and a stack is halved by each that finds it too large.
func collect(http.ResponseWriter, *http.Request) {
	for range 4 {
		debug.FreeOSMemory()
	}
}

// pauses reads the runtime's own histogram, and so all that has been since the start.
func pauses(w http.ResponseWriter, _ *http.Request) {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	h := sample[0].Value.Float64Histogram()
	var all, longer uint64
	for _, n := range h.Counts {
		all += n
	}
	i := len(h.Counts) - 1 // its bound is that of all longer pauses, and infinite
	for ; i > 0 && (longer+h.Counts[i])*100 <= all; i-- {
		longer += h.Counts[i]
	}
	fmt.Fprint(w, max(h.Buckets[i], 0)*1e6)
}

// proxy passes requests on to the server at an address, as requests for hello. It keeps
// connections.
func proxy(backend string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: backend})
			r.Out.URL.Path = "/"
			r.SetXForwarded()
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}
}

// Burn computes for some milliseconds.
func Burn(ms string) {
	n, _ := strconv.Atoi(ms)
	x := uint64(n)
	for end := time.Now().Add(time.Duration(n) * time.Millisecond); time.Now().Before(end); {
		for range 1000 {
			x = x*6364136223846793005 + 1442695040888963407 // a linear congruential generator
		}
	}
	sink.Store(x)
}

var sink atomic.Uint64 // keeps the compiler from leaving the work out
