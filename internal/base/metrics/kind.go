package metrics

import "sync/atomic"

// Kind declares what the handlers of a kind, a module or a layer, count of themselves. The server
// shows it wherever it shows figures: a new one needs no line elsewhere.
//
//	var kind = metrics.Kind{Name: "mirror", Label: "to", Figures: []metrics.Figure{
//		{Name: "requests", Help: "Copies that were sent."},
//	}}
//
//	counts := around.Of(env).Counts(&kind, "/next")
//	counts[0].Add(1) // lwango_mirror_requests_total{site="*",route="/",to="/next"}
type Kind struct {
	Name    string
	Label   string // by what the handlers of a route are told apart; "": there is one
	Figures []Figure
}

// Figure is a number of a Kind.
type Figure struct {
	Name  string // in words that are joined by underscores
	Gauge bool   // it may fall; else it counts from the start
	Help  string // a sentence
}

// New returns numbers for a handler, in the order of the Figures. Any goroutine may change them.
func (k *Kind) New() []atomic.Int64 { return make([]atomic.Int64, len(k.Figures)) }

// Read returns what a handler of a route has counted; of is the value of the Label.
func (k *Kind) Read(site, route, of string, counts []atomic.Int64) Counted {
	c := Counted{Kind: k.Name, Site: site, Route: route, Of: of, kind: k}
	for i := range counts {
		f := &k.Figures[i]
		c.Counts = append(c.Counts, Count{f.Name, counts[i].Load(), f.Gauge})
	}
	return c
}

// Counted is what a handler has counted of itself.
type Counted struct {
	Kind   string  `json:"kind"`
	Site   string  `json:"site"`
	Route  string  `json:"route"`
	Of     string  `json:"of,omitempty"`
	Counts []Count `json:"counts"`

	kind *Kind // nil in what was decoded from JSON
}

// Count is a figure and its value.
type Count struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
	Gauge bool   `json:"gauge,omitempty"` // it may fall; else it counts from the start
}

// Value returns the count of that name; 0: there is none.
func (c *Counted) Value(name string) int64 {
	for _, n := range c.Counts {
		if n.Name == name {
			return n.Value
		}
	}
	return 0
}

// ByKind calls f for the handlers of each kind, in the order in which s has the first of each.
func (s *Snapshot) ByKind(f func(all []*Counted)) {
	var kinds []string
	by := map[string][]*Counted{}
	for i := range s.Handlers {
		c := &s.Handlers[i]
		if by[c.Kind] == nil {
			kinds = append(kinds, c.Kind)
		}
		by[c.Kind] = append(by[c.Kind], c)
	}
	for _, k := range kinds {
		f(by[k])
	}
}

// handlers appends what handlers have counted of themselves.
func (s *Snapshot) handlers(t *text) {
	s.ByKind(func(all []*Counted) {
		for i, f := range all[0].kind.Figures {
			name, typ := "lwango_"+all[0].Kind+"_"+f.Name, "gauge"
			if !f.Gauge {
				name, typ = name+"_total", "counter"
			}
			t.family(name, typ, f.Help)
			for _, c := range all {
				labels := []string{"site", c.Site, "route", c.Route}
				if c.kind.Label != "" {
					labels = append(labels, c.kind.Label, c.Of)
				}
				t.sample(name, float64(c.Counts[i].Value), labels...)
			}
		}
	})
}
