package upstream

import "net/netip"

// slotCounts has the number of slots of each client network. Usually there are few networks, such
// as the one of a proxy in front, or as many as slots, and a request needs four look-ups. So the
// first ones are in a list, which costs less than a map.
type slotCounts struct {
	few  []slotCount // fewCounts at most
	many map[netip.Addr]int
}

type slotCount struct {
	clientNet netip.Addr
	slots     int
}

const fewCounts = 8

// of returns how many slots a client network has.
func (s *slotCounts) of(clientNet netip.Addr) int {
	for i := range s.few {
		if s.few[i].clientNet == clientNet {
			return s.few[i].slots
		}
	}
	if len(s.many) == 0 {
		return 0
	}
	return s.many[clientNet]
}

// set notes that a client network has n slots.
func (s *slotCounts) set(clientNet netip.Addr, n int) {
	for i := range s.few {
		if f := &s.few[i]; f.clientNet == clientNet {
			if f.slots = n; n == 0 {
				last := len(s.few) - 1
				*f = s.few[last]
				s.few = s.few[:last]
			}
			return
		}
	}
	switch {
	case n == 0:
		delete(s.many, clientNet)
	case len(s.few) < fewCounts && s.many[clientNet] == 0:
		s.few = append(s.few, slotCount{clientNet, n})
	default:
		if s.many == nil {
			s.many = make(map[netip.Addr]int)
		}
		s.many[clientNet] = n
	}
}
