package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lwango/lwango/pubsub"
)

const (
	patience  = 2 * time.Second // how long an answer may take
	heartbeat = 2 * time.Second // how long a read blocks at most
	firstWait = 50 * time.Millisecond
	maxWait   = time.Second // between two attempts to connect
)

// Engine is a pubsub.Engine.
type Engine struct {
	hub     *pubsub.Hub
	log     *slog.Logger
	options goredis.Options

	ctx     context.Context
	cancel  context.CancelFunc
	closing chan struct{} // the writer returns when it has nothing to send
	written chan struct{} // it has returned

	queue   queue
	readers readers

	health struct {
		sync.Mutex
		cut map[any]bool // goroutines that do not reach the broker
	}
}

// silence turns off the logger of the library, which writes a line to stderr for each attempt to
// connect. The engine gets the errors, and logs once what follows from them.
var silence = sync.OnceFunc(logging.Disable)

// Broker is for lwango.UseBroker.
var Broker pubsub.Broker = broker{}

type broker struct{}

func (broker) Check(url string) error { return Check(url) }

func (broker) Start(hub *pubsub.Hub, url string, log *slog.Logger) (
	func(grace time.Duration) (unsent int), error,
) {
	e, err := Start(hub, url, log)
	if err != nil {
		return nil, err
	}
	return e.Close, nil
}

// Check returns what is wrong with a URL: redis://, rediss:// (TLS) or unix://, with user and
// password, as go-redis takes them. The error does not quote the URL.
func Check(rawURL string) error {
	_, err := parseURL(rawURL)
	return err
}

func parseURL(rawURL string) (*goredis.Options, error) {
	const want = "expected something like redis://user:password@host:6379/0"
	u, err := url.Parse(rawURL)
	if err != nil {
		var e *url.Error // it quotes the URL, including the password
		if errors.As(err, &e) {
			err = e.Err
		}
		if strings.Contains(err.Error(), `"`) { // the error within may quote a part of it, too
			err = errors.New("not a URL")
		}
		return nil, fmt.Errorf("%w; %s", err, want)
	}
	if u.Host == "" && u.Scheme != "unix" {
		return nil, errors.New("no host; " + want)
	}
	if strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		// This is the rest of a password, which an error further on could quote.
		return nil, errors.New("a /, ? or # in a password is written %2F, %3F or %23; " + want)
	}
	o, err := goredis.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("%s; %s", strings.TrimPrefix(err.Error(), "redis: "), want)
	}
	return o, nil
}

// Start connects hub to the broker at the URL, which need not be up. It is called once, before the
// first Subscribe.
//
// The library has one logger for a whole program. The first Start silences it. A program that has
// clients of its own may call SetLogger afterwards.
func Start(hub *pubsub.Hub, rawURL string, log *slog.Logger) (*Engine, error) {
	o, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	silence()
	// The engine makes second attempts itself: they begin with what is not acknowledged.
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = patience, patience, patience
	o.ContextTimeoutEnabled = true
	// Each goroutine has a connection of its own, and keeps it.
	o.PoolSize, o.PipelinePoolSize = 1, -1
	o.ConnMaxLifetime, o.ConnMaxLifetimeJitter, o.ConnMaxIdleTime = 0, 0, -1
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}

	e := &Engine{
		hub:     hub,
		log:     log.With("broker", o.Addr),
		options: *o,
		closing: make(chan struct{}),
		written: make(chan struct{}),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.health.cut = make(map[any]bool)
	e.queue.something = make(chan struct{}, 1)
	e.readers.feeds = make(map[string]*feed)
	hub.Connect(e)
	go func() {
		defer close(e.written)
		e.write()
	}()
	e.readers.mu.Lock()
	defer e.readers.mu.Unlock()
	e.readers.start(e)
	return e, nil
}

// connect makes a client with one connection, which opens when it is first used, and again after it
// has broken. Each time opened is called. disconnect closes the client, and so does the end of the
// engine's context: a command that waits fails then.
//
// The client keeps its connection while the broker answers, even if it only answers with errors. The
// address may belong to another server meanwhile, as after a fail-over whose former primary runs on
// and refuses to write. So a goroutine takes another client after an attempt that has failed.
func (e *Engine) connect(opened func()) (client *goredis.Client, disconnect func()) {
	o := e.options
	o.OnConnect = func(context.Context, *goredis.Conn) error { opened(); return nil }
	client = goredis.NewClient(&o)
	stop := context.AfterFunc(e.ctx, func() { client.Close() })
	return client, func() {
		stop()
		client.Close()
	}
}

// Close sends what is still to be sent, within the grace period, and stops the goroutines. What is
// published afterwards stays in the process. It returns how many messages were not sent.
func (e *Engine) Close(grace time.Duration) (unsent int) {
	e.queue.close()
	close(e.closing)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-e.written:
	case <-timer.C:
	}
	e.cancel()
	e.readers.close()
	<-e.written
	return e.queue.len()
}

// Lost returns how many messages have not reached the broker and never will.
func (e *Engine) Lost() int { return e.queue.lostSoFar() }

// report notes whether one of the goroutines reaches the broker. It tells the hub when all of them
// do, and when one of them no longer does.
func (e *Engine) report(who any, err error) {
	h := &e.health
	h.Lock()
	defer h.Unlock()
	was := len(h.cut) == 0
	if delete(h.cut, who); err != nil {
		h.cut[who] = true
	}
	is := len(h.cut) == 0
	switch {
	case e.ctx.Err() != nil || was == is:
		return
	case is:
		e.log.Info("redis: topics are carried again", "lost", e.Lost())
	default:
		e.log.Warn("redis: topics are not carried to other processes", "error", err)
	}
	e.hub.SetCarried(is)
}

// within returns a context for a command that blocks for d at most.
func (e *Engine) within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.ctx, d+patience)
}

// backoff counts attempts.
type backoff struct{ wait time.Duration }

// next returns how long to wait before the next attempt. The time grows with each attempt, and is
// random, so that processes that have lost the same broker do not all return at once.
func (b *backoff) next() time.Duration {
	b.wait = min(max(2*b.wait, firstWait), maxWait)
	return b.wait/2 + rand.N(b.wait)
}
