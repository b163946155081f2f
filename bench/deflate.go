package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// A countedConn counts what is read of it.
type countedConn struct {
	net.Conn
	came *int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	*c.came += int64(n)
	return n, err
}

// A quote is a part of a message as servers of prices send them.
type quote struct {
	Symbol string  `json:"symbol"`
	Bid    float64 `json:"bid"`
	Ask    float64 `json:"ask"`
	Size   int     `json:"size"`
	Venue  string  `json:"venue"`
}

// quotes is JSON of a little less than size bytes; numbers and names differ in each.
func quotes(random *rand.Rand, size int) []byte {
	var message struct {
		Type   string    `json:"type"`
		Number uint32    `json:"number"`
		Time   time.Time `json:"time"`
		Quotes []quote   `json:"quotes"`
	}
	message.Type, message.Number = "quotes", random.Uint32()
	message.Time = time.Date(2026, 11, 27, 12, 0, 0, random.IntN(1e9), time.UTC)
	var text []byte
	for {
		longer := must(json.Marshal(message))
		if len(longer) > size {
			return text
		}
		text = longer
		bid := float64(1000+random.IntN(50000)) / 100
		message.Quotes = append(message.Quotes, quote{
			Symbol: fmt.Sprintf("%c%c%c", 'A'+random.IntN(26), 'A'+random.IntN(26), 'A'+random.IntN(26)),
			Bid:    bid, Ask: float64(int(bid*100)+1+random.IntN(20)) / 100,
			Size: 100 * (1 + random.IntN(40)), Venue: []string{"XNAS", "XNYS", "XLON"}[random.IntN(3)],
		})
	}
}

// loadDeflated echoes messages of JSON one after the other on connections whose messages may refer
// to earlier ones, and counts the bytes that come back: frames, deflated, of messages of j.Size.
func loadDeflated(j job) figures {
	ctx, cancel := context.WithTimeout(context.Background(), j.Patience+j.Warmup+2*j.Duration)
	defer cancel()
	came, random := int64(0), rand.New(rand.NewPCG(1, 2))
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return countedConn{j.dial(), &came}, nil
		},
	}}
	conns := make([]*websocket.Conn, j.Conns)
	for i := range conns {
		conn, _, err := websocket.Dial(ctx, "ws://"+j.Addr+j.Path, &websocket.DialOptions{
			HTTPClient: client, CompressionMode: websocket.CompressionContextTakeover,
		})
		check(err)
		defer conn.CloseNow()
		conn.SetReadLimit(2 * j.Size)
		conns[i] = conn
	}
	messages, texts := 0, 0
	during := func(d time.Duration) {
		for end := time.Now().Add(d); messages == 0 || time.Now().Before(end); {
			for _, conn := range conns {
				text := quotes(random, int(j.Size))
				check(conn.Write(ctx, websocket.MessageText, text))
				_, back, err := conn.Read(ctx)
				check(err)
				if !bytes.Equal(back, text) {
					failf("%.40q came back of %.40q", back, text)
				}
				messages++
				texts += len(text)
			}
		}
	}
	during(j.Warmup)
	messages, texts, came = 0, 0, 0
	m := newMeter(j.Group)
	during(j.Duration)
	f := m.figures(float64(messages))
	f["size"], f["share"] = float64(came)/float64(messages), float64(came)/float64(texts)
	return f
}
