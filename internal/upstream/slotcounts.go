package upstream

import "net/netip"

// slotCounts are how many slots each of some sites has. As a rule they are few, such as the one of
// a proxy in front, or as many as there are slots; and a request asks four times. So the first ones
// are in a list, which costs less than a map.
type slotCounts struct {
	few  []slotCount // fewCounts at most
	many map[netip.Addr]int
}

type slotCount struct {
	site  netip.Addr
	slots int
}

const fewCounts = 8

// of returns how many slots a site has.
func (s *slotCounts) of(site netip.Addr) int {
	for i := range s.few {
		if s.few[i].site == site {
			return s.few[i].slots
		}
	}
	if len(s.many) == 0 {
		return 0
	}
	return s.many[site]
}

// set notes that a site has n slots.
func (s *slotCounts) set(site netip.Addr, n int) {
	for i := range s.few {
		if f := &s.few[i]; f.site == site {
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
		delete(s.many, site)
	case len(s.few) < fewCounts && s.many[site] == 0:
		s.few = append(s.few, slotCount{site, n})
	default:
		if s.many == nil {
			s.many = make(map[netip.Addr]int)
		}
		s.many[site] = n
	}
}
