package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub/internal/engine"
)

// finder knows which server has the streams at present. Goroutines ask it before each attempt to
// connect: after a fail-over, or when slots have moved, the next attempt leads to the right one.
type finder interface {
	// find returns the address of the server that has a key.
	find(ctx context.Context, key string) (addr string, err error)
	close()
}

func (at *target) finder() finder {
	switch {
	case at.cluster:
		o := at.options
		return &nodes{client: goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs: at.addrs, Username: o.Username, Password: o.Password, Dialer: o.Dialer,
			MaxRetries: o.MaxRetries, DialerRetries: o.DialerRetries,
			DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
			ContextTimeoutEnabled: true, PoolSize: o.PoolSize, PipelinePoolSize: o.PipelinePoolSize,
			Protocol: o.Protocol, DisableIdentity: true,
			MaintNotificationsConfig: o.MaintNotificationsConfig,
		})}
	case at.primary != "":
		return &sentinels{name: at.primary, options: at.sentinel, addrs: at.addrs}
	}
	return singleServer(at.options.Addr)
}

// singleServer is a server without Sentinel and cluster.
type singleServer string

func (o singleServer) find(context.Context, string) (string, error) { return string(o), nil }
func (singleServer) close()                                         {}

// reuseFor is for how long the answer to one goroutine serves others, which ask at the same time
// when a node has failed.
const reuseFor = 20 * time.Millisecond

// nodes finds the node of a cluster. go-redis keeps the map of slots, and learns of nodes that are
// not in the URL.
type nodes struct {
	client *goredis.ClusterClient

	mu    sync.Mutex
	asked time.Time // when the map was last asked for
}

func (n *nodes) find(ctx context.Context, key string) (addr string, err error) {
	if err := n.ask(ctx); err != nil {
		return "", err
	}
	node, err := n.client.MasterForKey(ctx, key)
	if err != nil {
		return "", err
	}
	return node.Options().Addr, nil
}

// ask asks a node for the map of slots.
func (n *nodes) ask(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.asked) < reuseFor {
		return nil
	}
	// It asks for the map first, and then calls the function for each node.
	err := n.client.ForEachMaster(ctx, func(context.Context, *goredis.Client) error { return nil })
	n.asked = time.Now()
	return err
}

func (n *nodes) close() { n.client.Close() }

// sentinels are asked for the primary of a name, one after another until one knows it.
type sentinels struct {
	name    string
	options goredis.Options

	mu    sync.Mutex
	addrs []string // the one that has answered last is the first
}

func (s *sentinels) find(ctx context.Context, _ string) (addr string, err error) {
	s.mu.Lock()
	addrs := append([]string(nil), s.addrs...)
	s.mu.Unlock()
	var all []error
	for i, sentinel := range addrs {
		if addr, err = s.ask(ctx, sentinel); err == nil {
			if i > 0 {
				s.prefer(sentinel)
			}
			return addr, nil
		}
		all = append(all, fmt.Errorf("sentinel %s: %w", sentinel, err))
	}
	return "", errors.Join(all...)
}

// ask asks one sentinel, and leaves time for the others.
func (s *sentinels) ask(ctx context.Context, sentinel string) (addr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerTimeout/4)
	defer cancel()
	o := s.options
	o.Addr = sentinel
	c := goredis.NewSentinelClient(&o)
	defer c.Close()
	switch at, err := c.GetMasterAddrByName(ctx, s.name).Result(); {
	case err == goredis.Nil:
		return "", errors.New("it does not know the primary's name")
	case err != nil:
		return "", err
	case len(at) != 2:
		return "", errors.New("it gives no address")
	default:
		return net.JoinHostPort(at[0], at[1]), nil
	}
}

// prefer puts a sentinel first.
func (s *sentinels) prefer(sentinel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.addrs
	s.addrs = []string{sentinel}
	for _, addr := range rest {
		if addr != sentinel {
			s.addrs = append(s.addrs, addr)
		}
	}
}

func (*sentinels) close() {}
