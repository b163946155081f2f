package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

// maxBatch is how many messages are sent at once.
const maxBatch = 128

// send sends a batch to the shard's server, and takes another client after an error.
func (s *shard) send(batch []engine.Item) (lost int, err error) {
	if s.client == nil {
		opened := new(atomic.Int32)
		s.client, s.disconnect, err = s.connect(func() { opened.Add(1) })
		if err != nil {
			return 0, err
		}
		s.opened = opened
	}
	wakeups := s.takeWakeups()
	if len(batch)+len(wakeups) == 0 {
		return 0, nil
	}
	lost, err = s.transact(batch, wakeups)
	if err == nil && len(batch) > 0 {
		err = s.awaitReplicas()
	}
	if err != nil {
		s.drop()
		s.mu.Lock()
		s.wake(wakeups...)
		s.mu.Unlock()
	}
	return lost, err
}

// drop disconnects, if there is a connection.
func (s *shard) drop() {
	if s.client != nil {
		s.disconnect()
		s.client = nil
	}
}

// connection is one of those that a client has opened.
type connection struct {
	opened *atomic.Int32
	number int32
}

// transact appends a batch to the streams as a transaction: all of it or nothing. So messages that
// are sent again after an error arrive in the right order, if perhaps twice. lost counts the
// messages that the broker refuses for good.
func (s *shard) transact(batch []engine.Item, wakeups []string) (lost int, err error) {
	ctx, cancel := s.Within(0)
	defer cancel()
	p := s.client.TxPipeline()
	added := make([]*goredis.StringCmd, len(batch))
	age := make(map[string]time.Duration) // the last message of a topic says how long it is kept
	for i, it := range batch {
		key := s.prefix + topicKeys + it.Topic
		most := int64(maxLength)
		if it.Topic == pubsub.PresenceTopic {
			most = maxNotes
		}
		added[i] = p.XAdd(ctx, &goredis.XAddArgs{
			Stream: key, MaxLen: most, Approx: true, Values: fields(it.Message),
		})
		if age[key] = maxAge; it.Keep > 0 {
			age[key] = max(it.Keep, time.Millisecond) // 0 would remove the stream at once
		}
	}
	for key, d := range age {
		p.PExpire(ctx, key, d)
	}
	var again []*goredis.StringCmd
	var followed *goredis.IntCmd
	if s.allExists {
		again = s.addToAll(ctx, p, batch)
	} else if len(batch) > 0 {
		followed = p.XLen(ctx, s.prefix+allKey)
	}
	for _, key := range wakeups {
		p.XAdd(ctx, &goredis.XAddArgs{Stream: key, MaxLen: 1, Values: []any{"wake", ""}})
		p.PExpire(ctx, key, wakeAge)
	}
	all, err := exec(ctx, p)
	gone := s.checkAdded(again)
	if gone {
		err = nil
		for _, cmd := range all {
			err = cmp.Or(err, cmd.Err())
		}
	}
	// If one of the commands was carried out, all were, although others may have no answer, because
	// the connection broke, or an error, because the broker has refused one. A refused message is not
	// sent again, since the order would be wrong. If the transaction was carried out, at least a
	// PEXPIRE has succeeded, which cannot fail.
	if err != nil &&
		!slices.ContainsFunc(all, func(cmd goredis.Cmder) bool { return cmd.Err() == nil }) {
		return 0, err
	}
	for i, cmd := range added {
		if refused := goredis.Error(nil); errors.As(cmd.Err(), &refused) {
			lost++
			s.Log.Error("redis: the broker refuses a message",
				"key", s.prefix+topicKeys+batch[i].Topic, "error", refused)
		}
	}
	at := connection{s.opened, s.opened.Load()}
	late := followed != nil && followed.Err() == nil && followed.Val() > 0
	if gone && at != s.allFoundOn {
		// The broker has forgotten the stream, or another one has taken over. Processes that follow a
		// pattern may come back later than this one.
		s.allExists, late = true, true
		if err := s.keepAllStream(s.client); err != nil {
			return 0, err
		}
	}
	if late { // from the next batch on, one transaction has both
		s.allExists = true
		p := s.client.TxPipeline()
		again = s.addToAll(ctx, p, batch)
		if _, err = exec(ctx, p); err != nil && !s.checkAdded(again) {
			return 0, err
		}
	}
	if s.allExists && len(batch) > 0 {
		s.allFoundOn = at
	}
	return lost, nil
}

// addToAll appends a batch to the stream of all topics, if that exists, because a process follows a
// pattern.
func (s *shard) addToAll(
	ctx context.Context, p goredis.Pipeliner, batch []engine.Item,
) (added []*goredis.StringCmd) {
	for _, it := range batch {
		added = append(added, p.XAdd(ctx, &goredis.XAddArgs{
			Stream: s.prefix + allKey, MaxLen: maxLength, Approx: true, NoMkStream: true,
			Values: append(fields(it.Message), fieldTopic, it.Topic),
		}))
	}
	return added
}

// checkAdded takes the answers of addToAll. It reports whether the stream does not exist, and
// removes that error from the answers.
func (s *shard) checkAdded(all []*goredis.StringCmd) (none bool) {
	for _, cmd := range all {
		if cmd.Err() == goredis.Nil {
			cmd.SetErr(nil)
			s.allExists, none = false, true
		}
	}
	return none
}

// awaitReplicas waits until as many replicas as the URL asks for have the batch. The messages stay
// in the outbox meanwhile, and are sent again if the server fails.
func (s *shard) awaitReplicas() error {
	for want := s.engine.target.replicas; want > 0; {
		ctx, cancel := s.Within(0)
		n, err := s.client.Wait(ctx, want, engine.AnswerTimeout/2).Result()
		cancel()
		switch {
		case err != nil:
			return err
		case s.opened.Load() > 1: // the answer is about another connection
			return errReplaced
		case int(n) >= want:
			return nil
		}
		s.Report(s.out, fmt.Errorf("%d of %d replicas have what was sent", n, want))
	}
	return nil
}

// exec runs a pipeline. If the broker refuses the connection (a wrong password, too many clients),
// the library returns an error of the pipeline and none of the commands, which look as if they had
// been carried out. So exec sets the error of the commands.
func exec(ctx context.Context, p goredis.Pipeliner) ([]goredis.Cmder, error) {
	cmds, err := p.Exec(ctx)
	if err != nil && !slices.ContainsFunc(cmds, func(cmd goredis.Cmder) bool {
		return cmd.Err() != nil
	}) {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	return cmds, err
}
