package nats

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

// Header fields of a message.
const (
	headerID   = "Lwango-Id"
	headerTime = "Lwango-Time" // nanoseconds since 1970
	headerKeep = "Lwango-Keep" // milliseconds

	// Of the server.
	headerTTL    = "Nats-TTL" // whole seconds
	headerSeq    = "Nats-Sequence"
	headerBefore = "Nats-Last-Sequence" // of the message before, of the same topic
	headerStamp  = "Nats-Time-Stamp"
	headerLeft   = "Nats-Num-Pending"
	headerStatus = "Status"
)

const maxSubject = 1024 // bytes: a server takes lines of 4096

// token returns what stands for a topic in subjects. Dots of a topic's name are dots of the subject,
// where NATS allows them.
func token(topic string) string {
	var b strings.Builder
	for i := range len(topic) {
		c := topic[i]
		dot := c == '.' && i > 0 && i < len(topic)-1 && topic[i-1] != '.'
		if dot || c > ' ' && c < 0x7f && !strings.ContainsRune(".*>=", rune(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	switch {
	case topic == "":
		return "="
	case b.Len() > maxSubject:
		return fmt.Sprintf("=%x", sha256.Sum256([]byte(topic)))
	}
	return b.String()
}

// encode makes what is published of a message.
func encode(subject string, m *pubsub.Message) *natsgo.Msg {
	h := natsgo.Header{headerID: {m.ID},
		headerTime: {strconv.FormatInt(m.Time.UnixNano(), 10)}}
	if m.Keep > 0 {
		h[headerKeep] = []string{strconv.FormatInt(m.Keep.Milliseconds(), 10)}
		seconds := max(int64(math.Ceil(m.Keep.Seconds())), 1)
		h[headerTTL] = []string{strconv.FormatInt(seconds, 10) + "s"}
	}
	return &natsgo.Msg{Subject: subject, Header: h, Data: m.Data}
}

// entry is a message that was read.
type entry struct {
	*pubsub.Message
	origin string
	number uint64
	stored time.Time // by the server's clock
}

// decode reads a message, whose number in the stream is seq. Any client of the broker may have
// published it: one without an ID gets one of the origin foreign.
func decode(m *natsgo.Msg, seq uint64, foreign string) entry {
	stored, _ := time.Parse(time.RFC3339Nano, m.Header.Get(headerStamp))
	id := m.Header.Get(headerID)
	origin, number, ok := engine.ParseID(id)
	nanos, err := strconv.ParseInt(m.Header.Get(headerTime), 10, 64)
	at := time.Unix(0, nanos)
	if !ok || err != nil {
		origin, number, at = foreign, seq, stored.Local()
		id = origin + "-" + strconv.FormatUint(seq, 36)
	}
	millis, _ := strconv.ParseInt(m.Header.Get(headerKeep), 10, 64)
	keep := time.Duration(max(millis, 0)) * time.Millisecond
	return entry{&pubsub.Message{ID: id, Time: at, Keep: keep, Data: m.Data}, origin, number, stored}
}

// number returns a number of the server's; 0 if there is none.
func number(m *natsgo.Msg, header string) uint64 {
	n, _ := strconv.ParseUint(m.Header.Get(header), 10, 64)
	return n
}
