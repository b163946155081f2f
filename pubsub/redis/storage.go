package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

// storagePrefix begins the keys of a storage. In a cluster, one node has them all.
const storagePrefix = "{lwango}:"

// Storage implements pubsub.Storer.
func (broker) Storage(url string) (pubsub.Storage, error) {
	at, err := parse(url)
	if err != nil {
		return nil, err
	}
	silenceLogger()
	at.options.PoolSize = 4
	return &storage{options: at.options, finder: at.finder()}, nil
}

// storage implements pubsub.Storage.
type storage struct {
	options goredis.Options
	finder  finder

	mu     sync.Mutex
	client *goredis.Client // of the server that was found last; nil: none
	closed bool
}

// do finds the server that has the keys, and lets f ask it. After an error that is no answer, the
// next call makes a new client: see shard.connect. A caller that gives up itself says nothing of
// the server, which others ask by the same client.
func (s *storage) do(caller context.Context,
	f func(context.Context, *goredis.Client) error) error {
	ctx, cancel := context.WithTimeout(caller, engine.AnswerTimeout)
	defer cancel()
	addr, err := s.finder.find(ctx, storagePrefix)
	if err != nil {
		return err
	}
	s.mu.Lock()
	c := s.client
	switch {
	case s.closed:
		s.mu.Unlock()
		return goredis.ErrClosed
	case c == nil || c.Options().Addr != addr:
		o := s.options
		o.Addr = addr
		c = goredis.NewClient(&o)
		s.drop(s.client)
		s.client = c
	}
	s.mu.Unlock()
	err = f(ctx, c)
	if err != nil && err != goredis.Nil && caller.Err() == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(c)
	}
	return err
}

// drop closes a client, which may be nil. The caller holds the lock.
func (s *storage) drop(c *goredis.Client) {
	if c != nil && s.client == c {
		s.client = nil
		c.Close()
	}
}

// Get implements pubsub.Storage.
func (s *storage) Get(ctx context.Context, key string) (value []byte, err error) {
	err = s.do(ctx, func(ctx context.Context, c *goredis.Client) (err error) {
		value, err = c.Get(ctx, storagePrefix+key).Bytes()
		return err
	})
	if errors.Is(err, goredis.Nil) {
		return nil, nil
	}
	return value, err
}

// Set implements pubsub.Storage.
func (s *storage) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return s.do(ctx, func(ctx context.Context, c *goredis.Client) error {
		return c.Set(ctx, storagePrefix+key, value, ttl).Err()
	})
}

// Add implements pubsub.Storage.
func (s *storage) Add(ctx context.Context, key string, value []byte, ttl time.Duration) (
	added bool, err error) {
	err = s.do(ctx, func(ctx context.Context, c *goredis.Client) (err error) {
		added, err = c.SetNX(ctx, storagePrefix+key, value, ttl).Result()
		return err
	})
	return added, err
}

// removeIf removes a key that has a value; extendIf lets it stay for so many milliseconds.
var (
	removeIf = goredis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then
	return redis.call("del", KEYS[1]) end return 0`)
	extendIf = goredis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then
	return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`)
)

// Remove implements pubsub.Storage.
func (s *storage) Remove(ctx context.Context, key string, value []byte) error {
	return s.do(ctx, func(ctx context.Context, c *goredis.Client) error {
		return removeIf.Run(ctx, c, []string{storagePrefix + key}, value).Err()
	})
}

// Extend implements pubsub.Storage.
func (s *storage) Extend(ctx context.Context, key string, value []byte, ttl time.Duration) (
	extended bool, err error) {
	err = s.do(ctx, func(ctx context.Context, c *goredis.Client) error {
		n, err := extendIf.Run(ctx, c, []string{storagePrefix + key}, value, ttl.Milliseconds()).Int()
		extended = n == 1
		return err
	})
	return extended, err
}

// Close implements pubsub.Storage.
func (s *storage) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.drop(s.client)
	s.finder.close()
}
