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
func (s *Conn) budget() int {
	if s.loop.Crowded() {
		return crowdedBudget
	}
	return TurnBudget
}

const opCost = 4 << 10 // the least that one system call counts

// Spend counts a piece of work that moves no bytes, such as a request that came with others. After
// as many as TurnBudget has system calls, the loop's other threads get their turn: after as many in
// a crowd, too, since the change to another thread costs a good part of such a piece.
func (s *Conn) Spend() {
	if s.worked++; s.worked == TurnBudget/opCost {
		_ = s.giveWay()
	}
}

// SpendOn is Spend for work that takes as long as moving n bytes.
func (s *Conn) SpendOn(n int) { _ = s.spend(n) }

func (s *Conn) spend(n int) error {
	if s.spent += int32(opCost + n); !s.Due() {
		return nil
	}
	return s.giveWay()
}

// Due reports that the connection has moved as much as it may: the next read lets the others have
// their turn first. In a crowd that lasts, and the caller's buffer lies idle meanwhile; a caller
// that has its buffers from the loop gives this one back and calls GiveWay before the next read.
func (s *Conn) Due() bool { return s.spent >= crowdedBudget && int(s.spent) >= s.budget() }

// GiveWay lets the loop's other threads have their turn, if that is Due. If the stream was closed
// meanwhile, the next call says so.
func (s *Conn) GiveWay() {
	if s.Due() {
		_ = s.giveWay()
	}
}

// giveWay lets the loop's other threads have their turn.
func (s *Conn) giveWay() error {
	s.spent, s.worked = 0, 0
	if t := s.loop.Current(); t != nil {
		loop.GiveWay(t)
		if s.gone() {
			return net.ErrClosed
		}
	}
	return nil
}
