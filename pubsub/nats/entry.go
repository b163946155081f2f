package nats

import (
	"crypto/sha256"
	"encoding/base64"
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

	headerCount = "Lwango-Count" // Message.Count
	headerLate  = "Lwango-Late"  // it was sent later than it was published: see engine.Late

	// Of a topic whose name is too long for a subject, in base64, since it may have any bytes.
	headerTopic = "Lwango-Topic"

	// Of the server.
	headerTTL    = "Nats-TTL" // whole seconds
	headerSeq    = "Nats-Sequence"
	headerBefore = "Nats-Last-Sequence" // of the message before, of the same topic
	headerStamp  = "Nats-Time-Stamp"
	headerLeft   = "Nats-Num-Pending"
	headerStatus = "Status"
)

const maxSubject = 1024 // bytes: a server takes lines of 4096

// token returns the topic's name in subjects: its words, between dots, with bytes that NATS does
// not allow in them as = and two hexadecimal digits. An empty word is =.
func token(topic string) string {
	var b strings.Builder
	for i, word := range strings.Split(topic, ".") {
		if i > 0 {
			b.WriteByte('.')
		}
		if word == "" {
			b.WriteByte('=')
		}
		for _, c := range []byte(word) {
			if c > ' ' && c < 0x7f && c != '*' && c != '>' && c != '=' {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "=%02X", c)
			}
		}
	}
	if b.Len() > maxSubject {
		return fmt.Sprintf("=%x", sha256.Sum256([]byte(topic)))
	}
	return b.String()
}

// filter returns the subject of a pattern.
func filter(pattern string) string {
	words := strings.Split(pattern, ".")
	for i, word := range words {
		if word != "*" && word != ">" {
			words[i] = token(word)
		}
	}
	return strings.Join(words, ".")
}

// topicOf returns the topic of a message with that token.
func topicOf(token string, m natsgo.Header) string {
	if topic := m[headerTopic]; len(topic) == 1 {
		name, _ := base64.StdEncoding.DecodeString(topic[0])
		return string(name)
	}
	words := strings.Split(token, ".")
	for i, word := range words {
		var b strings.Builder
		for at := 0; at < len(word); at++ {
			c := word[at]
			if c == '=' {
				n, err := strconv.ParseUint(word[at+1:min(at+3, len(word))], 16, 8)
				at += 2
				if c = byte(n); err != nil {
					continue
				}
			}
			b.WriteByte(c)
		}
		words[i] = b.String()
	}
	return strings.Join(words, ".")
}

// encode returns the message for the server.
func encode(prefix, topic string, m *pubsub.Message) *natsgo.Msg {
	name := token(topic)
	h := natsgo.Header{headerID: {m.ID},
		headerTime: {strconv.FormatInt(m.Time.UnixNano(), 10)}}
	if len(topic) > maxSubject/3 && len(name) == 1+2*sha256.Size {
		h[headerTopic] = []string{base64.StdEncoding.EncodeToString([]byte(topic))}
	}
	if m.Keep > 0 {
		h[headerKeep] = []string{strconv.FormatInt(m.Keep.Milliseconds(), 10)}
		seconds := max(int64(math.Ceil(m.Keep.Seconds())), 1)
		h[headerTTL] = []string{strconv.FormatInt(seconds, 10) + "s"}
	}
	if m.Count > 0 {
		h[headerCount] = []string{strconv.FormatUint(m.Count, 10)}
	}
	if engine.Late(m) {
		h[headerLate] = []string{"1"}
	}
	return &natsgo.Msg{Subject: prefix + name, Header: h, Data: m.Data}
}

// entry is a message that was read.
type entry struct {
	*pubsub.Message
	origin string
	number uint64
	stored time.Time // by the server's clock
	late   bool
}

// decode reads a message, whose number in the stream is seq. Any client of the broker may have
// published it: one without an ID gets one of the origin other.
func decode(m *natsgo.Msg, seq uint64, other string) entry {
	stored, _ := time.Parse(time.RFC3339Nano, m.Header.Get(headerStamp))
	id := m.Header.Get(headerID)
	origin, number, ok := engine.ParseID(id)
	nanos, err := strconv.ParseInt(m.Header.Get(headerTime), 10, 64)
	at := time.Unix(0, nanos)
	if !ok || err != nil {
		origin, number, at = other, seq, stored.Local()
		id = origin + "-" + strconv.FormatUint(seq, 36)
	}
	millis, _ := strconv.ParseInt(m.Header.Get(headerKeep), 10, 64)
	keep := time.Duration(max(millis, 0)) * time.Millisecond
	message := &pubsub.Message{ID: id, Time: at, Keep: keep, Data: m.Data}
	if ok && err == nil {
		message.Count, _ = strconv.ParseUint(m.Header.Get(headerCount), 10, 64)
	}
	return entry{message, origin, number, stored, m.Header.Get(headerLate) != ""}
}

// foreign returns the origin of messages without an ID in a stream that was created then.
func foreign(created time.Time) string { return strconv.FormatInt(created.Unix(), 36) }

// number returns the number in a header field of the server; 0 if there is none.
func number(m *natsgo.Msg, header string) uint64 {
	n, _ := strconv.ParseUint(m.Header.Get(header), 10, 64)
	return n
}
