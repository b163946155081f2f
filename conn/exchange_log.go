package conn

// routeName names a route in lines of the log: its [[site]], by the first host, and its prefix.
type routeName struct{ host, route string }

// nameOf returns the names of the route that SetCounter has given that number; "": it has none.
func (s *settings) nameOf(counter uint32) (n routeName) {
	if s.RouteName != nil {
		n.host, n.route = s.RouteName(counter)
	}
	return n
}

// attrs appends the attributes of a line of the log that is about a request of n.
func (n routeName) attrs(args []any) []any {
	if n.host != "" {
		args = append(args, "site", n.host)
	}
	if n.route != "" {
		args = append(args, "route", n.route)
	}
	return args
}

// about appends to args, the attributes of a line of the log, those that say which request the line
// is about.
func (x *exchange) about(args ...any) []any {
	args = append(args, "request_id", x.req.ID(), "target", x.req.Target())
	return x.set.nameOf(x.req.counter).attrs(args)
}
