package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// chatPlan is who speaks in a work with rooms.
type chatPlan struct {
	rooms, talkers int     // talkers in each room
	rate           float64 // messages per second, in all
	watch          bool    // the silence before

	// nap is how long the client lets frames gather. Where a message goes to many, the server would else wake it up
	// with nearly every frame that it writes, which no client on another machine does, and which costs more than all
	// the rest of a delivery. What comes to a member waits so long at most, at either server.
	nap time.Duration
}

// Silence begins and lasts so many times longer than a load is measured: what a server has to do some seconds after a
// connection came (lwango ends coroutines that nobody has used for ten) it does once, and all is before the first ping.
const (
	quietAfter = 4
	watchFor   = 3
)

// chatPatience is for the last messages of a run.
const chatPatience = 3 * time.Second

// verifyChat has two members of one room hear each other, and a third one in another hear nothing: that would be an
// error. Their rooms are not those that are measured: over a broker the last messages could come as news there.
func verifyChat(addr string, w work) error {
	report, err := loadChat(chatOptions{Addrs: []string{addr}, Path: w.path, FirstRoom: 1 << 20, Members: 4, Rooms: 2, Talkers: 2,
		Rate: 1000, Duration: 8 * time.Millisecond, Listen: verifyLimit, Patience: verifyLimit, PIDs: []int{os.Getpid()}})
	return errors.Join(err, report.check())
}

// check refuses what no chat may do, whatever it costs.
func (r chatReport) check() error {
	if r.Lost != 0 || r.Reordered != 0 || r.Doubled != 0 {
		return fmt.Errorf("%d deliveries lost, %d reordered, %d doubled", r.Lost, r.Reordered, r.Doubled)
	}
	return nil
}

func chatOf(s settings, w work, servers ...*server) chatOptions {
	o := chatOptions{Path: w.path, Members: w.conns, Rooms: w.chat.rooms, Talkers: w.chat.talkers, Rate: w.chat.rate, Nap: w.chat.nap,
		Listen: verifyLimit, Settle: s.settle, Warmup: s.warmup, Duration: s.duration, Patience: chatPatience}
	if w.chat.watch {
		o.Settle += quietAfter * s.duration
		o.Watch = watchFor * s.duration
	}
	for _, srv := range servers {
		o.Addrs = append(o.Addrs, srv.addr)
		o.PIDs = append(o.PIDs, srv.pids...)
	}
	return o
}

func runChat(ctx context.Context, env *environment, w work, o chatOptions) (chatReport, error) {
	var report chatReport
	err := runClient(ctx, env, w, "chat", o, &report, o.Listen+o.Settle+o.Watch+o.Warmup+o.Duration+2*o.Patience+o.Linger)
	return report, err
}

func measureChat(ctx context.Context, env *environment, s settings, w work, srv *server, r round) error {
	report, err := runChat(ctx, env, w, chatOf(s, w, srv))
	if err != nil {
		return err
	}
	r.setChat(report)
	if w.chat.watch {
		r.set(wakeUps, float64(max(0, report.WakeUps-switchesPerPing*report.Pings)))
		r.set(pingCount, float64(report.Pings))
	}
	highest, err := peakMemory(srv.pids)
	if err != nil {
		return err
	}
	r.set(peak, mebi(highest))
	return report.check()
}

// switchesPerPing is what a ping takes that shares its moment with no other: the server wakes to send it, and to read
// the answer.
const switchesPerPing = 2

func (r round) setChat(report chatReport) {
	delivered := float64(report.Delivered)
	r.set(perSecond, delivered/report.Took.Seconds())
	r.set(cpuTotal, micro(report.CPU.total())/delivered)
	r.set(cpuUser, micro(report.CPU.User)/delivered)
	r.set(cpuSystem, micro(report.CPU.System)/delivered)
	r.set(cpuClient, micro(report.Client.total())/delivered)
	r.set(latency50, micro(report.P50))
	r.set(latency99, micro(report.P99))
	r.set(lostCount, float64(report.Lost))
	r.set(reorderedCount, float64(report.Reordered))
	r.set(doubledCount, float64(report.Doubled))
}

func measureWSIdle(ctx context.Context, env *environment, s settings, w work, srv *server, r round) error {
	options := wsIdleOptions{Addr: srv.addr, Path: w.path, Conns: w.conns, Settle: s.settle, PIDs: srv.pids}
	var report wsIdleReport
	if err := runClient(ctx, env, w, "wsidle", options, &report, 2*s.settle+wsIdleLimit); err != nil {
		return err
	}
	r.set(bytesEach, float64(report.After-report.Before)/float64(w.conns))
	r.set(resident, mebi(report.After))
	r.set(cpuEach, micro(report.CPU.total())/float64(w.conns))
	return nil
}

// wsIdleLimit is for opening the connections, and the collections of garbage.
const wsIdleLimit = 30 * time.Second

// measureBrokered runs two servers of one kind with a broker between them. Twice: undisturbed, for the latency, and
// with the broker killed and started again while the members go on talking.
func measureBrokered(ctx context.Context, env *environment, s settings, w work, p peer, r round) (err error) {
	b, err := startBroker(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.kill()) }()
	w.broker = b.url()
	var servers []*server
	for range 2 {
		srv, err := startServer(ctx, env, p, w, nil)
		if err != nil {
			return err
		}
		servers = append(servers, srv)
	}
	defer func() {
		for _, srv := range servers {
			err = errors.Join(err, srv.stop())
		}
	}()

	options := chatOf(s, w, servers...)
	options.Linger = brokerLinger
	report, err := runChat(ctx, env, w, options)
	if err != nil {
		return err
	}
	r.setChat(report)
	disturbed, err := disturb(ctx, env, w, options, b)
	if err != nil {
		return fmt.Errorf("with the broker killed: %w", err)
	}
	r.set(lostCount, float64(report.Lost+disturbed.Lost))
	r.set(reorderedCount, float64(report.Reordered+disturbed.Reordered))
	r.set(doubledCount, float64(report.Doubled+disturbed.Doubled))
	if err := report.check(); err != nil {
		return err
	}
	if err := disturbed.check(); err != nil {
		return fmt.Errorf("with the broker killed: %w", err)
	}
	return nil
}

// The broker is away from downAt to upAt of a run of disturbedFor, which the messages take long enough for that some
// are published before, meanwhile and after.
const (
	downAt       = 1500 * time.Millisecond
	upAt         = 3 * time.Second
	disturbedFor = 6 * time.Second

	// brokerPatience is for reconnecting, and for everything that waited.
	brokerPatience = 20 * time.Second

	// brokerLinger is for what a writer or a reader that came back brings once more.
	brokerLinger = time.Second
)

func disturb(ctx context.Context, env *environment, w work, o chatOptions, b *broker) (chatReport, error) {
	o.Warmup, o.Duration, o.Patience = 0, disturbedFor, brokerPatience
	type result struct {
		report chatReport
		err    error
	}
	done := make(chan result, 1)
	go func() {
		report, err := runChat(ctx, env, w, o)
		done <- result{report, err}
	}()
	err := errors.Join(sleep(ctx, o.Settle+downAt), b.kill(), sleep(ctx, upAt-downAt), b.start(ctx))
	end := <-done
	return end.report, errors.Join(err, end.err)
}
