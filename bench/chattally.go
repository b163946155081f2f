package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// A message of the chat: who sent it, the how-manyth of his it is from 1, and when it was due, in nanoseconds since the
// client's start. All is text, in hexadecimal, because chats send text; the rest is the same for all.
type chatMessage struct {
	sender, number uint32
	due            time.Duration
}

const (
	chatHead = 2 * (4 + 4 + 8)
	chatSize = 125 // the most that a frame of two bytes' head has
)

// chatFill is what a message ends with.
var chatFill = letters(chatSize - chatHead)

// letters is text without a pattern that a server might cut or repeat unnoticed.
func letters(n int) []byte {
	b := pattern(n)
	for i := range b {
		b[i] = 'a' + b[i]%26
	}
	return b
}

func (m chatMessage) appendTo(b []byte) []byte {
	var raw [chatHead / 2]byte
	binary.BigEndian.PutUint32(raw[0:], m.sender)
	binary.BigEndian.PutUint32(raw[4:], m.number)
	binary.BigEndian.PutUint64(raw[8:], uint64(m.due))
	return append(hex.AppendEncode(b, raw[:]), chatFill...)
}

func parseChatMessage(p []byte) (m chatMessage, err error) {
	if len(p) != chatSize || string(p[chatHead:]) != string(chatFill) {
		return m, fmt.Errorf("%d other bytes came than were sent: %.60q", len(p), p)
	}
	var raw [chatHead / 2]byte
	if _, err := hex.Decode(raw[:], p[:chatHead]); err != nil {
		return m, err
	}
	return chatMessage{binary.BigEndian.Uint32(raw[0:]), binary.BigEndian.Uint32(raw[4:]), time.Duration(binary.BigEndian.Uint64(raw[8:]))}, nil
}

// tally counts what becomes of the messages of some rooms: what each member got of each talker. Members are numbered so
// that member i is in room i % rooms; the first talkers of a room are its first members.
type tally struct {
	rooms, talkers int
	sent           []uint32 // by talker, who is a member: messages so far
	high           []uint32 // by member and talker of the room: the highest number that came
	gaps           map[gap]struct{}

	expected, came     int64 // deliveries
	reordered, doubled int64 // that came after a later one; that came again
}

// gap is a message that did not come, though a later one did.
type gap struct {
	place  int // in high
	number uint32
}

func newTally(members, rooms, talkers int) *tally {
	return &tally{rooms: rooms, talkers: talkers, sent: make([]uint32, rooms*talkers),
		high: make([]uint32, members*talkers), gaps: map[gap]struct{}{}}
}

func (t *tally) members() int { return len(t.high) / t.talkers }

// next is the number of the message that the member sends now.
func (t *tally) next(sender int) uint32 {
	t.sent[sender]++
	room := sender % t.rooms
	t.expected += int64((t.members() - room + t.rooms - 1) / t.rooms)
	return t.sent[sender]
}

// add counts a message that has come to a member. One that was never sent, or in another room, is an error.
func (t *tally) add(member int, m chatMessage) error {
	sender := int(m.sender)
	if sender >= len(t.sent) || m.number == 0 || m.number > t.sent[sender] {
		return fmt.Errorf("message %d of member %d came, which was never sent", m.number, m.sender)
	}
	if member%t.rooms != sender%t.rooms {
		return errors.New("a message of another room")
	}
	place := member*t.talkers + sender/t.rooms
	high := t.high[place]
	if m.number > high {
		for missed := high + 1; missed < m.number; missed++ {
			t.gaps[gap{place, missed}] = struct{}{}
		}
		t.high[place] = m.number
		t.came++
		return nil
	}
	if _, ok := t.gaps[gap{place, m.number}]; !ok {
		t.doubled++
		return nil
	}
	delete(t.gaps, gap{place, m.number})
	t.came++
	t.reordered++
	return nil
}

// lost is what has not come so far.
func (t *tally) lost() int64 { return t.expected - t.came }
