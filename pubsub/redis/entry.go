package redis

import (
	"errors"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub"
)

// Keys in Redis.
const (
	streamPrefix = "lwango:topic:"  // and the topic's name: its stream
	wakePrefix   = "lwango:wake:"   // and a hub's origin, and a number: wakes a reader
	maxLength    = 1 << 13          // of a stream, or a few more: what a process can catch up with
	maxAge       = 24 * time.Hour   // of a stream after its last entry, if that has no keep
	wakeAge      = 10 * time.Minute // of a stream that has woken its reader
)

// Fields of an entry.
const (
	fieldID   = "id"
	fieldTime = "time" // nanoseconds since 1970
	fieldData = "data"
	fieldKeep = "keep" // milliseconds for which the stream is kept after it; absent: maxAge
)

func fields(m *pubsub.Message) []any {
	all := []any{fieldID, m.ID, fieldTime, m.Time.UnixNano(), fieldData, m.Data}
	if m.Keep > 0 {
		all = append(all, fieldKeep, m.Keep.Milliseconds())
	}
	return all
}

// entry is a message that was read.
type entry struct {
	*pubsub.Message
	origin string
	seq    uint64
}

var errEntry = errors.New("not a message")

// parse reads an entry. Any client of the broker may have written it.
func parse(x goredis.XMessage) (entry, error) {
	id, _ := x.Values[fieldID].(string)
	nanos, _ := x.Values[fieldTime].(string)
	data, ok := x.Values[fieldData].(string)
	origin, number, ok2 := strings.Cut(id, "-")
	seq, err := strconv.ParseUint(number, 36, 64)
	at, err2 := strconv.ParseInt(nanos, 10, 64)
	if !ok || !ok2 || err != nil || err2 != nil || origin == "" || len(id) > maxID {
		return entry{}, errEntry
	}
	keep, _ := x.Values[fieldKeep].(string)
	millis, _ := strconv.ParseInt(keep, 10, 64)
	m := &pubsub.Message{
		ID: id, Time: time.Unix(0, at), Keep: time.Duration(millis) * time.Millisecond,
		Data: []byte(data),
	}
	return entry{m, origin, seq}, nil
}

// maxID is the length of the longest ID: two numbers of 64 bits in base 36, and a dash.
const maxID = 13 + 1 + 13
