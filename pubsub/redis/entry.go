package redis

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

// Keys in Redis.
const (
	prefix    = "lwango:"        // of all, and in a cluster a shard's tag
	topicKeys = "topic:"         // and the topic's name: its stream
	allKey    = "all"            // the stream of all topics, for patterns
	wakeKeys  = "wake:"          // and a hub's origin, and a number: wakes a reader
	maxLength = 1 << 13          // of a stream, or a few more: what a process can catch up with
	maxNotes  = 1 << 10          // of that of PresenceTopic: a process that misses some asks for all
	maxAge    = 24 * time.Hour   // of a stream after its last entry, if that has no keep
	wakeAge   = 10 * time.Minute // of a stream that has woken its reader
)

// clusterPrefix is what keys of a shard of a cluster begin with. The broker takes the slot of what
// is in braces.
func clusterPrefix(tag int) string { return fmt.Sprintf("%s{%d}:", prefix, tag) }

// Fields of an entry.
const (
	fieldID   = "id"
	fieldTime = "time" // nanoseconds since 1970
	fieldData = "data"
	fieldKeep = "keep" // milliseconds for which the stream is kept after it; absent: maxAge

	fieldCount = "count" // Message.Count
	fieldLate  = "late"  // it was sent later than it was published: see engine.Late

	fieldTopic = "topic" // in the stream of all topics
)

func fields(m *pubsub.Message) []any {
	all := []any{fieldID, m.ID, fieldTime, m.Time.UnixNano(), fieldData, m.Data}
	if m.Keep > 0 {
		all = append(all, fieldKeep, m.Keep.Milliseconds())
	}
	if m.Count > 0 {
		all = append(all, fieldCount, m.Count)
	}
	if engine.Late(m) {
		all = append(all, fieldLate, "")
	}
	return all
}

// entry is a message that was read.
type entry struct {
	*pubsub.Message
	origin string
	number uint64
	late   bool
}

var errEntry = errors.New("not a message")

// parseEntry reads an entry. Any client of the broker may have written it.
func parseEntry(x goredis.XMessage) (entry, error) {
	id, _ := x.Values[fieldID].(string)
	nanos, _ := x.Values[fieldTime].(string)
	data, ok := x.Values[fieldData].(string)
	origin, number, known := engine.ParseID(id)
	at, err := strconv.ParseInt(nanos, 10, 64)
	if !ok || !known || err != nil {
		return entry{}, errEntry
	}
	keep, _ := x.Values[fieldKeep].(string)
	millis, _ := strconv.ParseInt(keep, 10, 64)
	counted, _ := x.Values[fieldCount].(string)
	count, _ := strconv.ParseUint(counted, 10, 64)
	_, late := x.Values[fieldLate]
	m := &pubsub.Message{
		ID: id, Time: time.Unix(0, at), Keep: time.Duration(millis) * time.Millisecond,
		Data: []byte(data), Count: count,
	}
	return entry{m, origin, number, late}, nil
}
