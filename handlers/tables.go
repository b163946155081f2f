package handlers

import "github.com/lwango/lwango/conn"

// tables finds the table of hosts for a request, by its listener and its scheme. As long as no site
// asks for either, there is one table for all requests.
type tables struct {
	// By listener, as far as sites name them, with all sites that answer there; each for http and
	// for https.
	listeners map[string]*schemes
	others    schemes // for the listeners that no site names

	split bool // there is more than one table; if not, all sites are in the first of others
}

// schemes is a table for http and one for https.
type schemes [2]hostTable

// newTables makes the tables for sites, empty.
func newTables(sites []Site) (t tables) {
	for _, s := range sites {
		t.split = t.split || len(s.Listeners) > 0 || s.Scheme != ""
		for _, name := range s.Listeners {
			if t.listeners == nil {
				t.listeners = make(map[string]*schemes)
			}
			if t.listeners[name] == nil {
				t.listeners[name] = new(schemes)
			}
		}
	}
	return t
}

// table returns the table for a request.
func (t *tables) table(req *conn.Request) *hostTable {
	if !t.split {
		return &t.others[0]
	}
	return t.at(req.Layer().Listener(), req.Secure())
}

func (t *tables) at(listener string, secure bool) *hostTable {
	s := t.listeners[listener]
	if s == nil {
		s = &t.others
	}
	if secure {
		return &s[1]
	}
	return &s[0]
}

// of returns the tables to which a site belongs.
func (t *tables) of(s Site) (all []*hostTable) {
	if !t.split {
		return append(all, &t.others[0])
	}
	add := func(both *schemes) {
		if s.Scheme != "https" {
			all = append(all, &both[0])
		}
		if s.Scheme != "http" {
			all = append(all, &both[1])
		}
	}
	if len(s.Listeners) == 0 {
		for _, both := range t.listeners {
			add(both)
		}
		add(&t.others)
		return all
	}
	for _, name := range s.Listeners {
		add(t.listeners[name])
	}
	return all
}

// rank orders sites that answer the same host: the more a site names besides, the higher it ranks.
func (s *Site) rank() (n int) {
	if len(s.Listeners) > 0 {
		n += 2
	}
	if s.Scheme != "" {
		n++
	}
	return n
}
