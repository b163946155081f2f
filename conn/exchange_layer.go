package conn

// RequestLayer is a Request with what the layers between the server and a handler do besides: they
// route it, rewrite it, name its user, or read its fields without a copy. It is valid as long as
// the Request, and belongs to the same thread.
type RequestLayer struct{ *Request }

// Layer returns what a layer, or a module of the configuration, may do with the request.
func (r *Request) Layer() RequestLayer { return RequestLayer{r} }

// ResponseLayer is a Response with what the layers between the server and a handler do besides:
// they change the head before it is sent, encode the body, or answer instead of a handler. It is
// valid as long as the Response, and belongs to the same thread.
type ResponseLayer struct{ *Response }

// Layer returns what a layer, or a module of the configuration, may do with the response.
func (w *Response) Layer() ResponseLayer { return ResponseLayer{w} }

// Key names a value of type T that requests may have. It is a variable of the package that sets the
// value, and its address is the name:
//
//	var session conn.Key[*Session]
//
//	conn.Set(req, &session, s)        // in a layer
//	s, ok := conn.Value(req, &session) // in a handler behind it
type Key[T any] struct{ _ byte } // not empty: addresses of empty variables may be equal

// Set gives the request a value for the handlers behind the caller, also for one that gets the
// request rewritten, forwarded or for an error page; but not for a subrequest. A
// second Set of the key replaces the value. The request drops its values when its handler returns.
// Set is called on the request's thread. It allocates unless v is a pointer.
func Set[T any](req *Request, key *Key[T], v T) {
	if req.over() {
		return
	}
	req.seen = nil
	for i := len(req.values) - 1; i >= int(req.older); i-- { // the last one is what Value finds
		if req.values[i].key == key {
			req.values[i].of = v
			return
		}
	}
	req.values = append(req.values, value{key, v})
}

// Value returns the value that Set has given the request, or the one that the context of SetContext
// has for key, whichever came last, and whether there is one. It is called on the request's thread.
// See ValueOf for other goroutines.
func Value[T any](req *Request, key *Key[T]) (v T, ok bool) {
	if req.over() {
		return v, false
	}
	of, ok := lookUp(req.values[req.older:], key)
	if !ok && req.x.bound != nil {
		if of = req.x.ctx.Value(key); of != nil {
			ok = true
		} else {
			of, ok = lookUp(req.values[:req.older], key)
		}
	}
	if ok {
		v, _ = of.(T) // a nil interface is no T
	}
	return v, ok
}

type value struct{ key, of any }

// onceOnly is the value of a key of Once.
type onceOnly struct{}

func (v value) once() bool { return v.of == onceOnly{} }

// lookUp returns the last value of that key.
func lookUp(values []value, key any) (of any, ok bool) {
	for i := len(values) - 1; i >= 0; i-- {
		if values[i].key == key {
			return values[i].of, true
		}
	}
	return nil, false
}
