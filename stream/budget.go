package stream

import (
	"net"

	"github.com/lwango/lwango/loop"
)

// TurnBudget is how many bytes one connection may move before others get their turn. While more
// threads are ready than a turn of the loop has time for, it is crowdedBudget: a crowd whose long
// answers begin at once should not be a second's work for the loop before it sees the next request.
const (
	TurnBudget    = 256 << 10
	crowdedBudget = 32 << 10
)

// budget returns how many bytes one connection may move now.
func (s *Stream) budget() int {
	if s.loop.Crowded() {
		return crowdedBudget
	}
	return TurnBudget
}

const opCost = 4 << 10 // the least that one system call counts

// Spend charges the turn's budget with one system call, for work that moves no bytes. If the budget
// is used up, the loop's other threads get their turn.
func (s *Stream) Spend() { _ = s.spend(0) }

// SpendOn is Spend for work that takes as long as moving n bytes.
func (s *Stream) SpendOn(n int) { _ = s.spend(n) }

func (s *Stream) spend(n int) error {
	if s.spent += int32(opCost + n); int(s.spent) < s.budget() {
		return nil
	}
	s.spent = 0
	if t := s.loop.Current(); t != nil {
		loop.GiveWay(t)
		if s.gone() {
			return net.ErrClosed
		}
	}
	return nil
}
