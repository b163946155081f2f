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
	ackWait    = 30 * time.Second // others may claim messages that were not claimed again so long
	memberless = 5 * time.Minute  // how long a queue group lives without any process
	forgotten  = time.Hour        // silent processes without messages, and groups, are removed
)

// join makes the group, unless it is there, and makes the process a consumer of it. known reports
// whether the process was one before: then the broker lists the entries that the process has.
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
		from = idBefore(uint64(max(now.Add(c.since.Sub(at)).UnixMilli(), 1)), 0)
	case none || isAbove(from, info.LastGeneratedID): // another stream, all of which is new
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
	c.dropConsumers(ctx, p, there, from)
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
		err = c.destroyForgotten(ctx)
	}
	c.joined = c.joined || err == nil
	return came.Val() == 0, err
}

// dropConsumers removes consumers that are gone. there are the consumers that the group had before
// this process joined, perhaps with this process among them. If all of them are gone, the group
// begins anew.
func (c *consumer) dropConsumers(
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

// destroyForgotten destroys the stream's other queue groups that no process has used for so long.
// If a process comes back to a group, it makes the group again.
func (c *consumer) destroyForgotten(ctx context.Context) error {
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

// groupName is the broker's name for a queue group of a topic or a pattern.
func groupName(name, group string) string { return fmt.Sprint(len(name), ":", name, ":", group) }

// isGroup reports whether a group of the broker is a queue group of ours, not another program's.
func isGroup(name string) bool {
	length, rest, _ := strings.Cut(name, ":")
	n := 0
	_, err := fmt.Sscanf(length, "%d", &n)
	return err == nil && n >= 0 && n < len(rest) && rest[n] == ':'
}
