package redis_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/redis"
)

// peerURL, in the environment, has the test's binary be another process of the room.
const peerURL = "LWANGO_PEER"

func TestMain(m *testing.M) {
	if url := os.Getenv(peerURL); url != "" {
		if err := peer(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if url := os.Getenv(workerURL); url != "" {
		if err := work(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	rooms.Main(func(hub *pubsub.Hub, url string, log *slog.Logger) (rooms.Engine, error) {
		return redis.Start(hub, url, log)
	})
	leak.Parallel(6) // they wait more than they compute
	leak.Main(m)
}

// report is what the peer has seen of the numbers a0, a1, ...
type report struct {
	Received int
	Wrong    []string // not the next one
	Median   time.Duration
	P99      time.Duration
}

// peer follows the room until "end", answers each number with one of its own, and prints its
// report.
func peer(url string) error {
	var hub pubsub.Hub
	engine, err := redis.Start(&hub, url, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	l, err := loop.New(loop.Options{})
	if err != nil {
		return err
	}
	l.Go(func(th *loop.Thread) {
		room := hub.Topic("room")
		sub := room.Subscribe(th, pubsub.Options{Queue: pubsub.MaxQueue})
		room.Publish([]byte("ready"))
		var r report
		var took []time.Duration
		for {
			m, err := sub.Receive(time.Minute)
			if err != nil {
				return
			}
			switch text := string(m.Data); {
			case text == "end":
				slices.Sort(took)
				r.Median, r.P99 = took[len(took)/2], took[len(took)*99/100]
				_ = json.NewEncoder(os.Stdout).Encode(r)
				return
			case text[0] == 'a':
				took = append(took, time.Since(m.Time))
				if text != fmt.Sprintf("a%d", r.Received) {
					r.Wrong = append(r.Wrong, text)
				}
				room.Publish(fmt.Appendf(nil, "b%d", r.Received))
				r.Received++
			}
		}
	})
	if err := l.Run(); err != nil {
		return err
	}
	engine.Close(limit)
	return nil
}

// startPeer starts the other process, and returns when it follows the room. result waits for its
// report.
func startPeer(t testing.TB, url string, here *follower) (result func() report) {
	cmd := exec.Command(os.Args[0], "-test.run=none")
	cmd.Env = append(os.Environ(), peerURL+"="+url, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // if a test has failed
		_ = cmd.Wait()
	})
	here.Expect("ready")
	return func() (r report) {
		line, err := bufio.NewReader(stdout).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &r)
		}
		if err != nil {
			t.Fatalf("the other process: %q, %v", line, err)
		}
		return r
	}
}

func TestTwoProcessesAcrossARestart(t *testing.T) {
	t.Parallel()
	b := broker.Start(t)
	one := startNode(t, b.URL())
	room := one.Hub.Topic("room")
	here := one.Follow(room, pubsub.Options{})
	result := startPeer(t, b.URL(), here)
	n := 0
	numbers := func(count int) {
		for range count {
			publish(room, fmt.Sprintf("a%d", n))
			n++
			time.Sleep(time.Millisecond)
		}
	}
	numbers(200)
	b.Kill()
	numbers(200)
	b.Restart()
	for start := time.Now(); time.Since(start) < limit &&
		(one.engine.Pending() > 0 || !one.Hub.Carried()); {
		numbers(10)
	}
	numbers(200)
	checkOrder(t, here.Collect(2*n), map[string][2]int{"a": {0, n}, "b": {0, n}})
	publish(room, "end")
	r := result()
	if r.Received != n || len(r.Wrong) > 0 {
		t.Errorf("the other has %d of %d, out of order %v", r.Received, n, r.Wrong)
	}
	here.Expect("end")
	here.Quiet()
}

// Who is there is known to three processes, one of which is killed, and after a new start of the
// broker.
func TestPresence(t *testing.T) {
	t.Parallel()
	b := broker.Start(t)
	rooms.Presence(t, startNode(t, b.URL()).Node, b.URL(), func() { b.Kill(); b.Restart() })
}

// Three processes speak in a room, and one of them is killed; then also the broker.
func TestThreeProcesses(t *testing.T) {
	t.Parallel()
	b := broker.Start(t)
	rooms.ThreeProcesses(t, startNode(t, b.URL()).Node, b.URL(), nil)
	rooms.ThreeProcesses(t, startNode(t, b.URL()).Node, b.URL(), func() { b.Kill(); b.Restart() })
}

// BenchmarkTwoProcesses is a message to another process, which answers with one, and the next 5 ms
// later: how long from Publish to the subscriber there. With "always" the broker writes each to the
// disk before it passes it on.
func BenchmarkTwoProcesses(b *testing.B) {
	for _, fsync := range []string{"always", "everysec"} {
		b.Run(fsync, func(b *testing.B) {
			broker := broker.Start(b, "--appendfsync", fsync)
			one := startNode(b, broker.URL())
			room := one.Hub.Topic("room")
			here := one.Follow(room, pubsub.Options{})
			result := startPeer(b, broker.URL(), here)
			b.ResetTimer()
			for i := range b.N {
				publish(room, fmt.Sprintf("a%d", i))
				time.Sleep(5 * time.Millisecond)
			}
			publish(room, "end")
			r := result()
			if r.Received != b.N || len(r.Wrong) > 0 {
				b.Errorf("%+v of %d", r, b.N)
			}
			b.ReportMetric(float64(r.Median.Microseconds()), "median-µs")
			b.ReportMetric(float64(r.P99.Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkThroughput is what a process sends to two others, and what each of them receives.
func BenchmarkThroughput(b *testing.B) {
	broker := broker.Start(b, "--appendfsync", "everysec")
	rooms.Throughput(b, 2, func() *rooms.Node { return startNode(b, broker.URL()).Node })
}
