package rooms

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// inRoom, in the environment, has the test's binary be another process of the room: a prefix, and
// the URL of the broker.
const inRoom = "LWANGO_ROOM"

// Main is for TestMain, before anything else: in another process of the room it does what that
// does, and does not return.
func Main(start func(hub *pubsub.Hub, url string, log *slog.Logger) (Engine, error)) {
	prefix, url, ok := strings.Cut(os.Getenv(inRoom), " ")
	if !ok {
		return
	}
	if err := process(prefix, url, start); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process follows the room, prints what comes, a line each, and says numbers with its prefix, until
// "stop" comes. Then it says "." and its prefix, and returns when that is sent.
func process(prefix, url string,
	start func(*pubsub.Hub, string, *slog.Logger) (Engine, error)) error {
	var hub pubsub.Hub
	engine, err := start(&hub, url, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	l, err := loop.New(loop.Options{})
	if err != nil {
		return err
	}
	l.Go(func(th *loop.Thread) {
		if name, ok := strings.CutPrefix(prefix, "presence:"); ok {
			present(th, &hub, name)
			return
		}
		room := hub.Topic("room")
		sub := room.Subscribe(th, pubsub.Options{Queue: pubsub.MaxQueue})
		for n := 0; ; {
			i, err := th.AwaitAny(-1, sub, th.After(time.Millisecond))
			if err != nil {
				return
			}
			if i == 1 && engine.Pending() < ahead {
				Publish(room, fmt.Sprint(prefix, n))
				n++
			}
			for m := sub.Next(); m != nil; m = sub.Next() {
				fmt.Println(string(m.Data))
				if string(m.Data) == "stop" {
					Publish(room, "."+prefix)
					return
				}
			}
		}
	})
	if err := l.Run(); err != nil {
		return err
	}
	engine.Close(Limit)
	return nil
}

// Process is another process of the room.
type Process struct {
	cmd   *exec.Cmd
	lines chan string // what has come there
}

// StartProcess starts another process of the room.
func StartProcess(t testing.TB, prefix, url string) *Process {
	t.Helper()
	p := &Process{cmd: exec.Command(os.Args[0], "-test.run=none"),
		lines: make(chan string, pubsub.MaxQueue)}
	p.cmd.Env = append(os.Environ(), inRoom+"="+prefix+" "+url, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout := must.Get(p.cmd.StdoutPipe())(t)
	must.Do(t, p.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		p.Kill()
		<-read
		_ = p.cmd.Wait()
	})
	return p
}

// Kill is kill -9.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() }

// all returns what has come to a process that ends.
func (p *Process) all(t testing.TB) (texts []string) {
	t.Helper()
	timeout := time.After(Limit)
	for {
		select {
		case text, ok := <-p.lines:
			if !ok {
				return texts
			}
			texts = append(texts, text)
		case <-timeout:
			t.Fatal("the other process does not end")
		}
	}
}

// numbers returns how many numbers of a prefix are among texts, which must be in order, each once,
// and from the first one on that is there.
func numbers(t testing.TB, where, prefix string, texts []string) (first, end int) {
	t.Helper()
	first = -1
	for _, text := range texts {
		var n int
		if rest, ok := strings.CutPrefix(text, prefix); !ok {
			continue
		} else if _, err := fmt.Sscan(rest, &n); err != nil {
			continue
		}
		if first < 0 {
			first, end = n, n
		}
		if n != end {
			t.Fatalf("%s: %s%d, want %s%d", where, prefix, n, prefix, end)
		}
		end++
	}
	return max(first, 0), end
}

// ThreeProcesses is a test of an engine: three processes of a room, one of which is killed and
// comes again under another name, while all of them speak and disturb breaks something, if it is
// not nil. Each of the others has to get everything, in order and once.
func ThreeProcesses(t *testing.T, here *Node, url string, disturb func()) {
	room := here.Hub.Topic("room")
	f := here.Follow(room, pubsub.Options{})
	stop := here.Traffic("room", "a")
	b, c := StartProcess(t, "b", url), StartProcess(t, "c", url)
	var got []string
	until := func(enough func() bool) { // which is asked now and then
		t.Helper()
		for len(got)%16 != 0 || !enough() {
			got = append(got, f.Next())
		}
	}
	count := func(prefix string) int {
		_, end := numbers(t, "here", prefix, got)
		return end
	}
	until(func() bool { return count("b") >= 100 && count("c") >= 100 })
	c.Kill()
	d := StartProcess(t, "d", url)
	if disturb != nil {
		disturb()
	}
	at := count("b")
	until(func() bool { return count("b") >= at+300 && count("d") >= 100 })
	n := stop()
	wait.Until(t, "it is carried", here.Hub.Carried)
	Publish(room, "stop")
	for ends := 0; ends < 2; {
		text := f.Next()
		if got = append(got, text); text == ".b" || text == ".d" {
			ends++
		}
	}
	f.Quiet()
	atB, atD := b.all(t), d.all(t)
	if _, end := numbers(t, "here", "a", got); end != n {
		t.Errorf("here: %d of our own %d", end, n)
	}
	if _, end := numbers(t, "at b", "a", atB); end != n {
		t.Errorf("at b: a up to %d, of %d", end, n)
	}
	if _, end := numbers(t, "at d", "a", atD); end != n {
		t.Errorf("at d: a up to %d, of %d", end, n)
	}
	if _, end := numbers(t, "at b", "c", atB); end != count("c") {
		t.Errorf("at b: c up to %d, and here up to %d", end, count("c"))
	}
	if first, _ := numbers(t, "here", "b", got); first != 0 {
		t.Errorf("here: b begins with %d", first)
	}
	if first, _ := numbers(t, "here", "d", got); first != 0 {
		t.Errorf("here: d begins with %d", first)
	}
	if _, end := numbers(t, "at b", "b", atB); count("b") != end {
		t.Errorf("here: b up to %d, and it has said %d", count("b"), end)
	}
	t.Logf("%d messages here, %d of them of the process that was killed", len(got), count("c"))
}

// Throughput is a benchmark of an engine: a process publishes texts of 100 bytes, and follow others
// follow the topic. It reports messages a second, and what a message costs a process that sends or
// receives it; not what it costs the broker.
func Throughput(b *testing.B, follow int, node func() *Node) {
	from := node()
	var at []*Follower
	for range follow {
		n := node()
		at = append(at, n.Follow(n.Hub.Topic("room"), pubsub.Options{}))
	}
	room, text := from.Hub.Topic("room"), strings.Repeat("x", 100)
	Publish(room, "up")
	for _, f := range at {
		f.Expect("up")
	}
	const unread = 1 << 12 // messages that no follower has yet: less than a queue holds
	used := processor(b)
	b.ResetTimer()
	for i := range b.N {
		Publish(room, text)
		if i >= unread {
			for _, f := range at {
				f.Next()
			}
		}
	}
	for _, f := range at {
		f.Collect(min(b.N, unread))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	each := float64(b.N * (1 + follow))
	b.ReportMetric(float64((processor(b)-used).Microseconds())/each, "cpu-µs/message/process")
}

// processor returns how much time of processors the process has used.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
