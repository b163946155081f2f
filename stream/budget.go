package stream

import (
	"net"
)

// TurnBudget is how many bytes one connection may move before others get their turn. While more
// threads are ready than a turn of the loop has time for, the budget is overloadedBudget: thousands
// of long answers that begin at once should not occupy the loop for a second before it sees the
// next request.
const (
	TurnBudget       = 256 << 10
	overloadedBudget = 32 << 10
)

// budget returns how many bytes one connection may move now.
func (s *Conn) budget() int {
	if s.loop.Layer().Overloaded() {
		return overloadedBudget
	}
	return TurnBudget
}

const opCost = 4 << 10 // the least that one system call counts

// Spend counts a piece of work that moves no bytes, such as a pipelined request. After TurnBudget /
// opCost such pieces the loop's other threads get their turn. An overloaded loop makes no
// difference, since switching to another thread costs a good part of such a piece.
func (s *Conn) Spend() {
	if s.workUnits++; s.workUnits == TurnBudget/opCost {
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

// Due reports that the connection has used up its budget: the next read lets other threads run
// first. On an overloaded loop that takes long, and the caller's buffer is unused meanwhile. So a
// caller that has its buffer from the loop returns it and calls GiveWay before the next read.
func (s *Conn) Due() bool { return s.spent >= overloadedBudget && int(s.spent) >= s.budget() }

// GiveWay lets the loop's other threads run, if that is Due. If the stream was closed meanwhile,
// the next call returns the error.
func (s *Conn) GiveWay() {
	if s.Due() {
		_ = s.giveWay()
	}
}

// giveWay lets the loop's other threads run.
func (s *Conn) giveWay() error {
	s.spent, s.workUnits = 0, 0
	if t := s.loop.Layer().Current(); t != nil {
		t.Layer().GiveWay()
		if s.isClosed() {
			return net.ErrClosed
		}
	}
	return nil
}
