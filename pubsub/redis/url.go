package redis

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lwango/lwango/pubsub/internal/engine"
)

// target is what a URL says: where the broker is, and how it is spoken to.
type target struct {
	options goredis.Options // of a connection to a server that has streams
	cluster bool

	// With Sentinel: the name of the primary, and how a sentinel is spoken to.
	primary  string
	sentinel goredis.Options

	addrs    []string // of the server, the sentinels, or some nodes of the cluster
	replicas int      // that must have a message before it counts as sent
}

// Check returns what is wrong with a URL, as the package's comment describes it. It reads the files
// that the URL names. The error does not quote the URL.
func Check(rawURL string) error {
	_, err := parse(rawURL)
	return err
}

const (
	want        = "expected something like redis://user:password@host:6379/0"
	viaCluster  = "+cluster"
	viaSentinel = "+sentinel"
)

// parse leaves to go-redis what that has in URLs: user, password, database and options.
func parse(rawURL string) (*target, error) {
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
	at := new(target)
	scheme := strings.TrimSuffix(u.Scheme, viaSentinel)
	sentinel := scheme != u.Scheme
	at.cluster = strings.HasSuffix(scheme, viaCluster)
	u.Scheme = strings.TrimSuffix(scheme, viaCluster)
	if (at.cluster || sentinel) && u.Scheme != "redis" && u.Scheme != "rediss" ||
		at.cluster && sentinel {
		return nil, errors.New("no such scheme; " + want)
	}
	q := u.Query()
	take := func(key string) string {
		value := q.Get(key)
		q.Del(key)
		return value
	}
	addrs := q["addr"]
	q.Del("addr")
	at.primary = take("master_name")
	user, password := take("sentinel_username"), take("sentinel_password")
	if text := take("replicas"); text != "" {
		if at.replicas, err = strconv.Atoi(text); err != nil || at.replicas < 0 {
			return nil, errors.New("replicas is a number, of those that must have each message")
		}
	}
	secure, err := takeTLS(take, u.Scheme == "rediss", u.Hostname(), at.cluster || sentinel)
	if err != nil {
		return nil, err
	}
	u.RawQuery = q.Encode()
	o, err := goredis.ParseURL(u.String())
	if err != nil {
		return nil, fmt.Errorf("%s; %s", strings.TrimPrefix(err.Error(), "redis: "), want)
	}
	switch {
	case sentinel != (at.primary != ""):
		return nil, errors.New("master_name is the name of the primary, of redis+sentinel://")
	case !sentinel && user+password != "":
		return nil, errors.New("sentinel_username and sentinel_password are for redis+sentinel://")
	case !sentinel && !at.cluster && len(addrs) > 0:
		return nil, errors.New("addr is for redis+sentinel:// and redis+cluster://")
	case at.cluster && o.DB != 0:
		return nil, errors.New("a cluster has one database, 0")
	}
	if o.Network == "tcp" && sentinel && u.Port() == "" {
		o.Addr = net.JoinHostPort(u.Hostname(), "26379")
	}
	at.addrs = []string{o.Addr}
	for _, addr := range addrs {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
			return nil, errors.New("addr is a host and a port, as in host:6379")
		}
		at.addrs = append(at.addrs, addr)
	}
	at.addrs = slices.Compact(at.addrs)

	// The engine makes second attempts itself: they begin with what is not acknowledged.
	o.MaxRetries = -1
	o.DialerRetries = 1
	o.DialTimeout = engine.AnswerTimeout
	o.ReadTimeout, o.WriteTimeout = engine.AnswerTimeout, engine.AnswerTimeout
	o.ContextTimeoutEnabled = true
	// Each goroutine has a connection of its own, and keeps it.
	o.PoolSize, o.PipelinePoolSize = 1, -1
	o.ConnMaxLifetime, o.ConnMaxLifetimeJitter, o.ConnMaxIdleTime = 0, 0, -1
	o.DisableIdentity = true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if secure != nil {
		secure.skipVerify = o.TLSConfig.InsecureSkipVerify
		o.Dialer, o.TLSConfig = secure.dial, nil
	}
	at.options = *o
	at.sentinel = *o
	at.sentinel.Username, at.sentinel.Password, at.sentinel.DB = user, password, 0
	return at, nil
}
