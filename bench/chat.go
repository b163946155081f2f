package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A chatClient is all members of all rooms. The members of a room take turns at the servers, which
// share the rooms.
type chatClient struct {
	*wsClient
	job
	tally   *tally
	latency histogram
	text    []byte // of the message being sent
	turn    int
}

func newChatClient(j job) *chatClient {
	ws := newWSClient(64 << 10)
	ws.nap = j.Nap
	return &chatClient{
		wsClient: ws, job: j, tally: newTally(j.Conns, j.Rooms, j.Talkers), latency: newHistogram(),
	}
}

// server is where a member is connected.
func (c *chatClient) server(member int) string { return c.Addrs[member/c.Rooms%len(c.Addrs)] }

func (c *chatClient) joinRoom(i int) {
	c.join(c.server(i), c.Path+"?room="+strconv.Itoa(c.FirstRoom+i%c.Rooms), nil)
}

// loadChat joins, and talks at a fixed rate, whatever the server does: a message that leaves late
// counts from the moment it was due. It waits j.Patience for the last message.
func loadChat(j job) figures {
	if j.Rooms < 1 || j.Talkers < max(len(j.Addrs), 1) || j.Rooms*j.Talkers > j.Conns ||
		j.Rate <= 0 {
		failf("%d members in %d rooms with %d talkers each, %v messages/s, %d servers",
			j.Conns, j.Rooms, j.Talkers, j.Rate, len(j.Addrs))
	}
	c := newChatClient(j)
	defer c.shut()
	for i := range j.Conns {
		c.joinRoom(i)
	}
	c.settle()
	c.message = c.take
	c.talk(j.Warmup)
	m, came := newMeter(j.PIDs), c.tally.came
	c.latency = newHistogram()
	c.talk(j.Duration)
	f := m.figures(float64(max(c.tally.came-came, 1)))
	f.quantiles("latency", c.latency)
	f["lost"], f["reordered"] = float64(c.tally.lost()), float64(c.tally.reordered)
	f["doubled"] = float64(c.tally.doubled)
	return f
}

// settle returns when every member hears a member at each server: an upgrade may be answered a
// little before, and across servers it may take longer. Its messages have the number 0 and are no
// part of the tally.
func (c *chatClient) settle() {
	heard, missing := make([]uint64, c.Conns), c.Conns
	all := uint64(1)<<len(c.Addrs) - 1
	c.message = func(i int, p []byte, _ time.Duration) error {
		m, err := parseChatMessage(p)
		if err == nil && heard[i] != all {
			if heard[i] |= 1 << (int(m.sender) / c.Rooms); heard[i] == all {
				missing--
			}
		}
		return err
	}
	for end := c.now() + c.Listen; missing > 0; {
		if c.now() > end {
			failf("%d of %d members do not hear everybody in their room after %v",
				missing, c.Conns, c.Listen)
		}
		for i := range c.Rooms * len(c.Addrs) {
			check(c.say(chatMessage{sender: uint32(i)}))
		}
		c.until(200*time.Millisecond, func() bool { return missing == 0 })
	}
	c.run(c.Settle)
}

// talk sends messages for d, at least one, and returns when all have come everywhere or patience is
// at its end: what is lost is counted, and no error here.
func (c *chatClient) talk(d time.Duration) {
	start := c.now()
	for i := range max(int(d.Seconds()*c.Rate), 1) {
		due := start + time.Duration(float64(i)*float64(time.Second)/c.Rate)
		c.run(due - c.now())
		sender := c.turn % len(c.tally.sent)
		c.turn++
		check(c.say(chatMessage{uint32(sender), c.tally.next(sender), due}))
	}
	c.run(start + d - c.now())
	c.until(c.Patience, func() bool { return c.tally.lost() <= 0 })
}

func (c *chatClient) say(m chatMessage) error {
	c.text = m.appendTo(c.text[:0])
	return c.sendText(int(m.sender), c.text)
}

// take counts a message that came. Where there are two servers, a latency is that of a way between
// them.
func (c *chatClient) take(i int, p []byte, now time.Duration) error {
	m, err := parseChatMessage(p)
	if err != nil || m.number == 0 {
		return err
	}
	if len(c.Addrs) == 1 || c.server(i) != c.server(int(m.sender)) {
		c.latency.add(now-m.due, 1)
	}
	return c.tally.add(i, m)
}

// verifyChat lets two members of each of two rooms hear each other; to hear one of another room
// would be an error. The rooms are not those that are measured: over a broker the last messages
// could come as news there.
func verifyChat(j job) {
	j.load = load{Path: j.Path, FirstRoom: 1 << 20, Conns: 4, Rooms: 2, Talkers: 2, Rate: 1000}
	j.Warmup, j.Duration, j.Settle, j.Patience = 0, 8*time.Millisecond, 0, verifyLimit
	check(checkChat(loadChat(j)))
}

// checkChat refuses what no chat may do, whatever it costs.
func checkChat(f figures) error {
	if f["lost"] != 0 || f["reordered"] != 0 || f["doubled"] != 0 {
		return fmt.Errorf("%v deliveries lost, %v reordered, %v doubled",
			f["lost"], f["reordered"], f["doubled"])
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

// A tally counts what becomes of the messages of some rooms: what each member got from each talker.
// Member i is in room i % rooms; the first talkers of a room are its first members.
type tally struct {
	rooms, talkers int
	sent           []uint32 // by talker, who is a member: messages so far
	seen           [][]bool // by member and talker of the room, by number: it came

	expected, came     int64 // deliveries
	reordered, doubled int64 // that came after a later one; that came again
}

func newTally(members, rooms, talkers int) *tally {
	return &tally{rooms: rooms, talkers: talkers, sent: make([]uint32, rooms*talkers),
		seen: make([][]bool, members*talkers)}
}

// next is the number of the message that the member sends now.
func (t *tally) next(sender int) uint32 {
	t.sent[sender]++
	members := len(t.seen) / t.talkers
	t.expected += int64((members - sender%t.rooms + t.rooms - 1) / t.rooms)
	return t.sent[sender]
}

// add counts a message that has come to a member. One that was never sent, or in another room, is
// an error.
func (t *tally) add(member int, m chatMessage) error {
	sender := int(m.sender)
	if sender >= len(t.sent) || m.number == 0 || m.number > t.sent[sender] {
		return fmt.Errorf("message %d of member %d came, which was never sent", m.number, m.sender)
	}
	if member%t.rooms != sender%t.rooms {
		return errors.New("a message of another room")
	}
	seen := &t.seen[member*t.talkers+sender/t.rooms]
	switch n := int(m.number); {
	case n >= len(*seen):
		*seen = append(*seen, make([]bool, n+1-len(*seen))...)
	case (*seen)[n]:
		t.doubled++
		return nil
	default:
		t.reordered++
	}
	(*seen)[m.number] = true
	t.came++
	return nil
}

// lost is what has not come so far.
func (t *tally) lost() int64 { return t.expected - t.came }
