package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Variables for tests.
var (
	ackWait    = 30 * time.Second // until another process gets what one has and does not mention
	memberless = 5 * time.Minute  // how long a queue group lives without any process
	// until what has nothing and is silent is forgotten: a process, a group
	forgotten = time.Hour
)

// join makes the group, unless it is there, and the process a consumer of it. known reports whether
// it was one before: then the broker knows what it has.
func (c *consumer) join() (known bool, err error) {
	ctx, cancel := c.Within(0)
	defer cancel()
	info, err := c.client.XInfoStream(ctx, c.key).Result()
	none := goredis.HasErrorPrefix(err, "no such key")
	if err != nil && !none {
		return false, err
	}
	from := c.last
	switch {
	case from == "":
		now, at, err := brokerTime(ctx, c.client)
		if err != nil {
			return false, err
		}
		from = before(uint64(max(now.Add(c.since.Sub(at)).UnixMilli(), 1)), 0)
	case none || above(from, info.LastGeneratedID): // another one, of which all is news
		from = beginning
	}
	var there []goredis.XInfoConsumer
	if !c.joined && !none {
		there, err = c.client.XInfoConsumers(ctx, c.key, c.group).Result()
		if err != nil && !goredis.HasErrorPrefix(err, "NOGROUP") {
			return false, err
		}
	}
	p := c.client.TxPipeline()
	var made *goredis.StatusCmd
	if none {
		made = p.XGroupCreateMkStream(ctx, c.key, c.group, from)
		p.PExpire(ctx, c.key, maxAge)
	} else {
		made = p.XGroupCreate(ctx, c.key, c.group, from)
	}
	c.succeed(ctx, p, there, from)
	came := p.XGroupCreateConsumer(ctx, c.key, c.group, c.Hub.Origin())
	all, err := exec(ctx, p)
	if goredis.HasErrorPrefix(made.Err(), "BUSYGROUP") { // it is there
		made.SetErr(nil)
		err = nil
		for _, cmd := range all {
			err = cmp.Or(err, cmd.Err())
		}
	}
	if err == nil && !c.joined {
		err = c.sweep(ctx)
	}
	c.joined = c.joined || err == nil
	return came.Val() == 0, err
}

// succeed looks at the processes that the group had before this one came, among them perhaps this
// one. If all of them have gone, the group begins anew.
func (c *consumer) succeed(
	ctx context.Context, p goredis.Pipeliner, there []goredis.XInfoConsumer, from string,
) {
	anew := silent(there, memberless)
	if anew {
		p.XGroupSetID(ctx, c.key, c.group, from)
	}
	for _, o := range there {
		if anew || o.Pending == 0 && o.Idle > forgotten && o.Name != c.Hub.Origin() {
			p.XGroupDelConsumer(ctx, c.key, c.group, o.Name)
		}
	}
}

// silent reports whether the processes of a group have all been silent for so long.
func silent(all []goredis.XInfoConsumer, d time.Duration) bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(o goredis.XInfoConsumer) bool {
		return o.Idle <= d
	})
}

// sweep destroys the stream's other queue groups that have been forgotten. If a process comes back
// to one, it makes it again.
func (c *consumer) sweep(ctx context.Context) error {
	groups, err := c.client.XInfoGroups(ctx, c.key).Result()
	if err != nil {
		return err
	}
	for _, g := range groups {
		if g.Name == c.group || !isGroup(g.Name) {
			continue
		}
		all, err := c.client.XInfoConsumers(ctx, c.key, g.Name).Result()
		if err == nil && silent(all, forgotten) {
			err = c.client.XGroupDestroy(ctx, c.key, g.Name).Err()
		}
		if err != nil && !goredis.HasErrorPrefix(err, "NOGROUP") { // another process was quicker
			return err
		}
	}
	return nil
}

// groupName is how the broker calls a queue group of a topic or a pattern.
func groupName(name, group string) string { return fmt.Sprint(len(name), ":", name, ":", group) }

// isGroup reports whether a group of the broker's is a queue group, and not another program's.
func isGroup(name string) bool {
	length, rest, _ := strings.Cut(name, ":")
	n := 0
	_, err := fmt.Sscanf(length, "%d", &n)
	return err == nil && n >= 0 && n < len(rest) && rest[n] == ':'
}
