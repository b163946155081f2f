package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestChatMessage(t *testing.T) {
	for _, m := range []chatMessage{{}, {1, 2, 3}, {1<<32 - 1, 1<<32 - 1, 1<<63 - 1}} {
		p := m.appendTo(nil)
		got, err := parseChatMessage(p)
		if got != m || err != nil || len(p) != chatSize {
			t.Errorf("%+v of %d bytes: %+v, %v", m, len(p), got, err)
		}
		for _, bad := range []string{string(p[1:]), string(p) + "x", "g" + string(p[1:]), string(p[:chatSize-1]) + "-", ""} {
			if _, err := parseChatMessage([]byte(bad)); err == nil {
				t.Errorf("%q passed", bad)
			}
		}
	}
}

// Four members in two rooms of one talker each: members 0 and 1 talk, 2 hears 0, 3 hears 1.
func TestTally(t *testing.T) {
	type counts struct{ expected, lost, reordered, doubled int64 }
	rows := []struct {
		name string
		sent int      // messages of member 0
		came []uint32 // to member 2; member 0 hears all
		want counts
	}{
		{"all", 3, []uint32{1, 2, 3}, counts{6, 0, 0, 0}},
		{"none", 3, nil, counts{6, 3, 0, 0}},
		{"the last lost", 3, []uint32{1, 2}, counts{6, 1, 0, 0}},
		{"the first lost", 3, []uint32{2, 3}, counts{6, 1, 0, 0}},
		{"two in the middle lost", 4, []uint32{1, 4}, counts{8, 2, 0, 0}},
		{"swapped", 3, []uint32{1, 3, 2}, counts{6, 0, 1, 0}},
		{"backwards", 3, []uint32{3, 2, 1}, counts{6, 0, 2, 0}},
		{"the last again", 3, []uint32{1, 2, 3, 3}, counts{6, 0, 0, 1}},
		{"an old one again", 3, []uint32{1, 2, 3, 1}, counts{6, 0, 0, 1}},
		{"a late one twice", 3, []uint32{1, 3, 2, 2}, counts{6, 0, 1, 1}},
		{"doubling hides no loss", 3, []uint32{1, 1, 3}, counts{6, 1, 0, 1}},
	}
	for _, row := range rows {
		c := newTally(4, 2, 1)
		for range row.sent {
			if err := c.add(0, chatMessage{sender: 0, number: c.next(0)}); err != nil {
				t.Fatal(err)
			}
		}
		for _, n := range row.came {
			if err := c.add(2, chatMessage{sender: 0, number: n}); err != nil {
				t.Fatal(err)
			}
		}
		if got := (counts{c.expected, c.lost(), c.reordered, c.doubled}); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
}

func TestTallyRefuses(t *testing.T) {
	c := newTally(4, 2, 1)
	c.next(0)
	for want, m := range map[string]chatMessage{
		"another room": {sender: 0, number: 1},
		"never sent":   {sender: 1, number: 1},
	} {
		if err := c.add(3, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
	for _, m := range []chatMessage{{sender: 0, number: 0}, {sender: 0, number: 2}, {sender: 2, number: 1}, {sender: 1 << 31, number: 1}} {
		if err := c.add(2, m); err == nil {
			t.Errorf("%+v passed", m)
		}
	}
}

// Rooms need not be equally large.
func TestTallyExpected(t *testing.T) {
	c := newTally(7, 3, 2) // 0 3 6, 1 4, 2 5
	for sender, want := range []int64{3, 2, 2, 3, 2, 2} {
		before := c.expected
		if c.next(sender); c.expected-before != want {
			t.Errorf("member %d has %d to hear it, want %d", sender, c.expected-before, want)
		}
	}
}

// In any order, with any losses and repetitions, the counts are those of a slow count beside it.
func TestTallyAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		c := newTally(1, 1, 1)
		sent := 1 + random.IntN(20)
		for range sent {
			c.next(0)
		}
		seen, high := map[uint32]bool{}, uint32(0)
		var reordered, doubled int64
		for range random.IntN(40) {
			n := uint32(1 + random.IntN(sent))
			switch {
			case seen[n]:
				doubled++
			case n < high:
				reordered++
			}
			seen[n], high = true, max(high, n)
			if err := c.add(0, chatMessage{number: n}); err != nil {
				t.Fatal(err)
			}
		}
		if c.lost() != int64(sent-len(seen)) || c.reordered != reordered || c.doubled != doubled {
			t.Errorf("seed %d: %d lost, %d reordered, %d doubled; want %d, %d, %d", seed, c.lost(), c.reordered, c.doubled, sent-len(seen), reordered, doubled)
		}
	}
}

func chatTestOptions(addrs ...string) chatOptions {
	return chatOptions{Addrs: addrs, Path: "/ws-room", Members: 12, Rooms: 3, Talkers: 2, Rate: 400, Duration: 50 * time.Millisecond,
		Listen: verifyLimit, Watch: time.Millisecond, Patience: 200 * time.Millisecond, PIDs: ownPID}
}
