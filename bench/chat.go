package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// A chatClient is all members of all rooms: member i is in room i % Rooms, and the first Talkers of
// a room talk.
type chatClient struct {
	*wsClient
	job
	sent  []uint32   // by talker: messages so far
	heard [][]uint32 // by member and talker of its room: the last message's number; nil: nothing yet
	deaf  int        // members that have heard nothing yet

	expected, came int // deliveries
	latency        histogram
	text           []byte // of the message being sent
	turn           int
}

// loadChat joins, and talks at a fixed rate, whatever the server does: a message that leaves late
// counts from the moment it was due.
func loadChat(j job) figures {
	if j.Rate <= 0 {
		failf("%v messages/s", j.Rate)
	}
	c := newChatClient(j)
	defer c.shut()
	c.enter()
	c.run(c.Settle)
	c.talk(j.Warmup)
	m, came := newMeter(j.Group), c.came
	c.latency.Reset()
	c.talk(j.Duration)
	f := m.figures(float64(c.came - came))
	f.quantiles("latency", c.latency)
	return f
}

func newChatClient(j job) *chatClient {
	if j.Rooms < 1 || j.Talkers < 1 || j.Rooms*j.Talkers > j.Conns {
		failf("%d members in %d rooms with %d talkers each", j.Conns, j.Rooms, j.Talkers)
	}
	c := &chatClient{
		wsClient: newWSClient(64 << 10), job: j, latency: newHistogram(), deaf: j.Conns,
		sent: make([]uint32, j.Rooms*j.Talkers), heard: make([][]uint32, j.Conns),
	}
	c.nap, c.message = j.Nap, c.take
	return c
}

// enter lets all join.
func (c *chatClient) enter() {
	for i := range c.Conns {
		c.join(c.dial(), c.Path+"?room="+c.House+strconv.Itoa(i%c.Rooms), nil)
		if i%64 == 0 { // those that have joined answer pings
			check(c.poll(0))
		}
	}
	c.settle()
}

// settle returns when every member hears the first of its room: an upgrade may be answered a little
// before. These messages have the number 0. A room whose members all hear it gets no further one,
// which its server would remember.
func (c *chatClient) settle() {
	for end := c.now() + c.Patience; c.deaf > 0; {
		if c.now() > end {
			failf("%d of %d members hear nobody in their room after %v", c.deaf, c.Conns, c.Patience)
		}
		for room, deaf := range c.deafRooms() {
			if deaf {
				check(c.say(chatMessage{sender: uint32(room)}))
			}
		}
		for before := -1; c.deaf != before && c.deaf > 0; { // as long as some hear, others will
			before = c.deaf
			c.until(200*time.Millisecond, func() bool { return c.deaf == 0 })
		}
	}
}

// deafRooms tells of each room whether a member has heard nothing yet.
func (c *chatClient) deafRooms() []bool {
	rooms := make([]bool, c.Rooms)
	for i, heard := range c.heard {
		rooms[i%c.Rooms] = rooms[i%c.Rooms] || heard == nil
	}
	return rooms
}

// talk sends messages for d, at least one, and returns when all have come everywhere.
func (c *chatClient) talk(d time.Duration) {
	start := c.now()
	for i := range max(int(d.Seconds()*c.Rate), 1) {
		due := start + time.Duration(float64(i)*float64(time.Second)/c.Rate)
		c.run(due - c.now())
		c.sayNext(due)
	}
	c.run(start + d - c.now())
	c.allCome()
}

// sayNext lets the next talker say something that is due then.
func (c *chatClient) sayNext(due time.Duration) {
	sender := c.turn % len(c.sent)
	c.turn++
	c.sent[sender]++
	c.expected += (c.Conns - sender%c.Rooms + c.Rooms - 1) / c.Rooms // the members of its room
	check(c.say(chatMessage{uint32(sender), c.sent[sender], due}))
}

// allCome returns when all deliveries have come.
func (c *chatClient) allCome() {
	if !c.until(c.Patience, func() bool { return c.came == c.expected }) {
		failf("%d of %d deliveries lost", c.expected-c.came, c.expected)
	}
}

func (c *chatClient) say(m chatMessage) error {
	c.text = m.appendTo(c.text[:0])
	return c.sendText(int(m.sender), c.text)
}

// take counts a message that came. Each must come to each member of its room once, and in its
// sender's order, and to no other.
func (c *chatClient) take(i int, p []byte, now time.Duration) error {
	m, err := parseChatMessage(p)
	if err != nil {
		return err
	}
	sender := int(m.sender)
	if sender >= len(c.sent) || sender%c.Rooms != i%c.Rooms || m.number > c.sent[sender] {
		return fmt.Errorf("message %d of member %d came, which was never sent to this room",
			m.number, m.sender)
	}
	if c.heard[i] == nil {
		c.heard[i] = make([]uint32, c.Talkers)
		c.deaf--
	}
	last := &c.heard[i][sender/c.Rooms]
	switch m.number {
	case 0: // see settle
	case *last + 1:
		*last++
		c.came++
		c.latency.add(now-m.due, 1)
	default:
		return fmt.Errorf("member %d hears message %d of member %d after its message %d",
			i, m.number, m.sender, *last)
	}
	return nil
}

// A chatMessage says who sent it, its number among the sender's messages from 1, and when it was
// due, since the client's start. All is text, in hexadecimal, because chats send text; the rest of
// a message is the same for all.
type chatMessage struct {
	sender, number uint32
	due            time.Duration
}

const (
	chatHead = 2 * (4 + 4 + 8)
	chatSize = 125 // the most that a frame with a head of two bytes has
)

// chatFill is what a message ends with.
var chatFill = letters(chatSize - chatHead)

func (m chatMessage) appendTo(b []byte) []byte {
	return append(fmt.Appendf(b, "%08x%08x%016x", m.sender, m.number, uint64(m.due)), chatFill...)
}

func parseChatMessage(p []byte) (m chatMessage, err error) {
	if len(p) != chatSize || string(p[chatHead:]) != string(chatFill) {
		return m, fmt.Errorf("%d other bytes came than were sent: %.60q", len(p), p)
	}
	var raw [chatHead / 2]byte
	_, err = hex.Decode(raw[:], p[:chatHead])
	return chatMessage{binary.BigEndian.Uint32(raw[0:]), binary.BigEndian.Uint32(raw[4:]),
		time.Duration(binary.BigEndian.Uint64(raw[8:]))}, err
}
