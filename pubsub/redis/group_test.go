package redis_test

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/redis"
)

var workers = pubsub.Options{Group: "workers"}

// groups waits until a stream has a group, with so many consumers.
func groups(t *testing.T, b *broker.Broker, key string, consumers int) {
	t.Helper()
	wait.Until(t, "there is a group", func() bool {
		return b.Do("EXISTS "+key).(int64) > 0 && strings.Contains(
			fmt.Sprint(b.Do("XINFO GROUPS "+key)), fmt.Sprint("consumers:", consumers, " "))
	})
}

// all waits until a member has had all of some texts, in any order, and reports what comes besides.
func all(t *testing.T, f *follower, want []string) {
	t.Helper()
	for missing := slices.Clone(want); len(missing) > 0; {
		text := f.Next()
		i := slices.Index(missing, text)
		if i < 0 {
			t.Errorf("%q has come, and was not to, or not again", text)
			continue
		}
		missing = slices.Delete(missing, i, i+1)
	}
}

// set has a time of the engine's be another one in a test.
func set(t *testing.T, at *time.Duration, d time.Duration) {
	old := *at
	*at = d
	t.Cleanup(func() { *at = old })
}

// pending returns how many messages the broker has given out for a group of a topic.
func pending(b *broker.Broker, topic string) int64 {
	group := fmt.Sprint(len(topic), ":", topic, ":workers")
	return b.Do("XPENDING lwango:topic:" + topic + " " + group).([]any)[0].(int64)
}

// Of a queue group, one member gets each message, in whichever process it is. When a process
// leaves, the others get all.
func TestQueueGroup(t *testing.T) {
	t.Parallel()
	b := broker.Start(t)
	one, two, three := startNode(t, b.URL()), startNode(t, b.URL()), startNode(t, b.URL())
	at := []*follower{one.Follow(one.Hub.Topic("jobs"), workers),
		two.Follow(two.Hub.Topic("jobs"), workers)}
	groups(t, b, "lwango:topic:jobs", 2)
	publish(three.Hub.Topic("jobs"), numbered("a", 0, 1000)...)
	publish(one.Hub.Topic("jobs"), numbered("b", 0, 1000)...)
	var got [2][]string
	wait.Until(t, "all have come", func() bool {
		for i, f := range at {
			got[i] = append(got[i], f.All()...)
		}
		return len(got[0])+len(got[1]) >= 2000
	})
	both := slices.Concat(got[0], got[1])
	slices.Sort(both)
	if len(slices.Compact(both)) != 2000 {
		t.Error("one has come twice")
	}
	for i := range got {
		if len(got[i]) < 50 {
			t.Errorf("process %d has %d", i, len(got[i]))
		}
	}
	wait.Until(t, "all are acknowledged", func() bool { return pending(b, "jobs") == 0 })
	close(at[0].Done)
	want, texts := numbered("c", 0, 300), []string(nil)
	publish(three.Hub.Topic("jobs"), want...)
	wait.Until(t, "all have come", func() bool {
		texts = append(append(texts, at[0].All()...), at[1].All()...)
		return len(texts) >= len(want)
	})
	slices.Sort(want)
	if slices.Sort(texts); !slices.Equal(texts, want) {
		t.Errorf("got %q", texts)
	}
}

// join has a member of a process that receives nothing until it leaves.
func join(n *node, topic rooms.Source, o pubsub.Options) (leave func()) {
	end, joined, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	n.Loops.Go(0, func(th *loop.Thread) {
		defer close(left)
		sub := topic.Subscribe(th, o)
		close(joined)
		_, _ = th.AwaitAny(-1, loop.FromChan(end))
		sub.Unsubscribe()
	})
	<-joined
	return func() { close(end); <-left }
}

// A process whose members are busy has few of a queue group's messages, and when they leave, or the
// process stops, others get those, which are older than what the others have had.
func TestQueueGroupLosesNothing(t *testing.T) {
	t.Parallel()
	for _, stops := range []bool{false, true} {
		b := broker.Start(t)
		one, two := startNode(t, b.URL()), startNode(t, b.URL())
		leave := join(one, one.Hub.Topic("jobs"), pubsub.Options{Group: "workers", Queue: 8})
		groups(t, b, "lwango:topic:jobs", 1)
		want := numbered("a", 0, 100)
		publish(two.Hub.Topic("jobs"), want...)
		two.Acknowledged()
		wait.Until(t, "the busy one has some", func() bool { return pending(b, "jobs") > 0 })
		at := two.Follow(two.Hub.Topic("jobs"), workers)
		got := at.Collect(50)
		if slices.Contains(got, "a0") {
			t.Error("the busy one has nothing")
		}
		if stops {
			one.Engine.Close(limit)
		}
		leave()
		for _, text := range got {
			want = slices.DeleteFunc(want, func(s string) bool { return s == text })
		}
		if len(want) != 50 {
			t.Error("some have come twice")
		}
		all(t, at, want)
		at.Quiet()
	}
}

// The one who has subscribed gets what is published from then on, by its own process, too, also
// when it has left and come again, and when the broker has forgotten the group meanwhile.
func TestQueueGroupBegins(t *testing.T) {
	b := broker.Start(t)
	w := startWire(t, b)
	one, two := startNode(t, w.url()), startNode(t, b.URL())
	b.Do("XADD lwango:topic:jobs 1-1 id x-1 time 1 data before")
	at := one.Follow(one.Hub.Topic("jobs"), workers)
	publish(one.Hub.Topic("jobs"), "a", "b")
	all(t, at, []string{"a", "b"})
	wait.Until(t, "all is acknowledged", func() bool { return pending(b, "jobs") == 0 })
	w.Cut(true)
	one.Status.Expect("local")
	publish(two.Hub.Topic("jobs"), "c")
	two.Acknowledged()
	b.Do("XGROUP DESTROY lwango:topic:jobs 4:jobs:workers")
	publish(one.Hub.Topic("jobs"), "d")
	w.Cut(false)
	all(t, at, []string{"c", "d"})
	at.Quiet()
	close(at.Done)
	publish(two.Hub.Topic("jobs"), "e")
	again := one.Follow(one.Hub.Topic("jobs"), workers)
	publish(two.Hub.Topic("jobs"), "f")
	var texts []string // the first may still have been there
	wait.Until(t, "both have come", func() bool {
		texts = append(append(texts, at.All()...), again.All()...)
		return len(texts) >= 2
	})
	if slices.Sort(texts); !slices.Equal(texts, []string{"e", "f"}) {
		t.Errorf("got %q", texts)
	}
}

// A process was cut off for so long that others have dealt with what it had: it hands out no more
// of it than its members could have received before.
func TestQueueGroupOfOneCutOff(t *testing.T) {
	set(t, redis.AckWait, 300*time.Millisecond)
	b := broker.Start(t)
	w := startWire(t, b)
	one, two := startNode(t, w.url()), startNode(t, b.URL())
	b.Do("XGROUP CREATE lwango:topic:jobs 4:jobs:workers 0 MKSTREAM")
	for i := range 16 {
		b.Do(fmt.Sprintf("XADD lwango:topic:jobs * id x-%d time 1 data a%d", i+1, i))
	}
	leave := join(one, one.Hub.Topic("jobs"), pubsub.Options{Group: "workers", Queue: 8})
	defer leave()
	wait.Until(t, "it has all", func() bool { return pending(b, "jobs") == 16 })
	w.Cut(true)
	one.Status.Expect("local")
	for _, x := range b.Do("XPENDING lwango:topic:jobs 4:jobs:workers - + 100").([]any) {
		id := x.([]any)[0]
		b.Do(fmt.Sprintf("XCLAIM lwango:topic:jobs 4:jobs:workers other 0 %s JUSTID", id))
		b.Do(fmt.Sprintf("XACK lwango:topic:jobs 4:jobs:workers %s", id))
	}
	time.Sleep(*redis.AckWait)
	at := one.Follow(one.Hub.Topic("jobs"), workers)
	w.Cut(false)
	one.Status.Expect("carried")
	publish(two.Hub.Topic("jobs"), "end")
	for text := ""; text != "end"; {
		if text = at.Next(); text != "end" && !slices.Contains(numbered("a", 0, 4), text) {
			t.Errorf("%s was another's", text)
		}
	}
}

// What a killed process has goes to the others.
func TestQueueGroupOfTheKilled(t *testing.T) {
	b := broker.Start(t)
	two := startNode(t, b.URL())
	b.Do("XGROUP CREATE lwango:topic:more 4:more:workers 0 MKSTREAM")
	b.Do("XADD lwango:topic:more 1-1 id x-1 time 1 data taken")
	b.Do("XREADGROUP GROUP 4:more:workers dead COUNT 1 STREAMS lwango:topic:more >")
	b.Do("XCLAIM lwango:topic:more 4:more:workers dead 0 1-1 IDLE 40000 JUSTID")
	b.Do("XADD lwango:topic:more 2-1 id x-2 time 1 data waits")
	more := two.Follow(two.Hub.Topic("more"), workers)
	all(t, more, []string{"taken", "waits"})
	more.Quiet()
}

// Members are too slow, and the stream is trimmed meanwhile: the log says that.
func TestQueueGroupIsTooSlow(t *testing.T) {
	t.Parallel()
	b := broker.Start(t)
	var log logtext.Buffer
	one, two := startNodeLogging(t, b.URL(), &log), startNode(t, b.URL())
	defer join(one, one.Hub.Topic("jobs"), pubsub.Options{Group: "workers", Queue: 8})()
	groups(t, b, "lwango:topic:jobs", 1)
	publish(two.Hub.Topic("jobs"), numbered("a", 0, 100)...)
	two.Acknowledged()
	wait.Until(t, "it gives back what it has no room for", func() bool {
		idle := b.Do("XPENDING lwango:topic:jobs 4:jobs:workers IDLE 50000 - + 1").([]any)
		return len(idle) > 0
	})
	b.Do("XTRIM lwango:topic:jobs MAXLEN 1")
	at := one.Follow(one.Hub.Topic("jobs"), workers)
	at.Until("a99")
	if got := log.String(); !strings.Contains(got, "group are too slow") {
		t.Errorf("the log says: %s", got)
	}
}

// Most of what is published is not for a pattern's queue group: what is comes once, to one of two.
func TestQueueGroupOfFew(t *testing.T) {
	t.Parallel()
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	at := []*follower{one.Follow(one.Hub.Pattern("jobs.*"), workers),
		two.Follow(two.Hub.Pattern("jobs.*"), workers)}
	groups(t, b, "lwango:all", 2)
	var want, got []string
	for i := range 3 {
		publish(one.Hub.Topic("other"), numbered("x", 0, 400)...)
		some := numbered("a", 60*i, 60*(i+1))
		publish(one.Hub.Topic("jobs.1"), some...)
		want = append(want, some...)
	}
	wait.Until(t, "all have come", func() bool {
		got = append(append(got, at[0].All()...), at[1].All()...)
		return len(got) >= len(want)
	})
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	at[0].Quiet()
	at[1].Quiet()
}

// workerURL, in the environment, has the test's binary be a worker.
const workerURL = "LWANGO_WORKER"

// work prints each job that it gets.
func work(url string) error {
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
		sub := hub.Topic("jobs").Subscribe(th, workers)
		for {
			m, err := sub.Receive(time.Minute)
			if err != nil {
				return
			}
			fmt.Println(string(m.Data))
			th.Sleep(time.Millisecond)
		}
	})
	if err := l.Run(); err != nil {
		return err
	}
	engine.Close(limit)
	return nil
}

// worker is another process that is a member.
type worker struct {
	cmd   *exec.Cmd
	lines chan string
}

func startWorker(t *testing.T, url string) *worker {
	w := &worker{cmd: exec.Command(os.Args[0], "-test.run=none"), lines: make(chan string, 1<<14)}
	w.cmd.Env = append(os.Environ(), workerURL+"="+url, "GORACE=atexit_sleep_ms=0")
	w.cmd.Stderr = os.Stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout := must.Get(w.cmd.StdoutPipe())(t)
	must.Do(t, w.cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			w.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		<-read
		_ = w.cmd.Wait()
	})
	return w
}

// Three processes share jobs, and one is killed, then the broker: no job is lost but one that the
// killed process had received, and none is given twice but what was received without an
// acknowledgement.
func TestThreeWorkers(t *testing.T) {
	t.Parallel()
	b := broker.Start(t)
	one := startNode(t, b.URL())
	all := []*worker{startWorker(t, b.URL()), startWorker(t, b.URL()), startWorker(t, b.URL())}
	groups(t, b, "lwango:topic:jobs", 3)
	const jobs = 2000
	times := make(map[string]int)
	read := func() {
		for _, w := range all {
			for more := true; more; {
				select {
				case text := <-w.lines:
					times[text]++
				default:
					more = false
				}
			}
		}
	}
	publish(one.Hub.Topic("jobs"), numbered("a", 0, jobs)...)
	wait.Until(t, "some are done", func() bool { read(); return len(times) > 200 })
	must.Do(t, all[0].cmd.Process.Kill())
	wait.Until(t, "more are done", func() bool { read(); return len(times) > 500 })
	b.Kill()
	b.Restart()
	// What the killed one has looks as if it had been so for long.
	wait.Until(t, "what is given out is of the dead", func() bool {
		read()
		return len(times) > jobs-3*16-16
	})
	for _, x := range b.Do("XPENDING lwango:topic:jobs 4:jobs:workers - + 1000").([]any) {
		of := x.([]any)
		b.Do(fmt.Sprintf("XCLAIM lwango:topic:jobs 4:jobs:workers %s 0 %s IDLE 100000 JUSTID", of[1],
			of[0]))
	}
	wait.Until(t, "all are done", func() bool {
		read()
		return len(times) >= jobs-1 && pending(b, "jobs") == 0
	})
	read()
	twice := 0
	for _, n := range times {
		twice += n - 1
	}
	if twice > 3*16 {
		t.Errorf("%d were done twice", twice)
	}
	t.Logf("%d of %d done, %d twice", len(times), jobs, twice)
}
