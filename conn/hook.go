package conn

// HeadHook is told of a response whose head is about to be sent. status is the one that goes out,
// whether the handler has chosen it or the server, because the handler has failed. The hook may
// change the header, and let an Encoder encode the body. It may not write, set a body or wait.
type HeadHook func(req *Request, resp *Response, status int)

// BeforeHead lets h be called once, before the head of the final response is sent, on the request's
// thread. Hooks are called last first: what wraps a handler sets its hook before it calls the
// handler, and has the last word. A response that takes the place of another, such as the error
// page of a handler that has panicked, keeps the hooks. They are not called for a response without
// a handler, which is that to a request that cannot be parsed, nor if the connection is hijacked.
// In a hook, and once the head has gone out, BeforeHead does nothing.
//
// A field that a hook has set and that is not valid (see Header.Set) is logged and left out.
func (w ResponseLayer) BeforeHead(h HeadHook) {
	w.live()
	if w.phase == open && !w.hooking {
		w.hooks = append(w.hooks, h)
	}
}

// Hooks returns how many hooks and error pages the response has.
func (w ResponseLayer) Hooks() (hooks, pages int) { return len(w.hooks), len(w.pages) }

// DropHooks drops all hooks and error pages but the first of each, for a handler that is not to
// have a part in the answer any more: the request goes to another one.
func (w ResponseLayer) DropHooks(hooks, pages int) {
	if hooks < len(w.hooks) {
		clear(w.hooks[hooks:])
		w.hooks = w.hooks[:hooks]
	}
	if pages < len(w.pages) {
		clear(w.pages[pages:])
		w.pages = w.pages[:pages]
	}
}

func (w *Response) runHooks(status int, first []byte) {
	hooks := w.hooks
	w.hooks = hooks[:0]
	w.hooking, w.first = true, first
	for i := len(hooks) - 1; i >= 0; i-- {
		hooks[i](&w.x.req, w, status)
	}
	w.hooking, w.first = false, nil
	for bad := w.header.firstBad(); bad != nil; bad = w.header.firstBad() {
		w.x.set.Logger.Error("conn: response header left out, not a valid field",
			"name", bad.Name, "value", bad.Value, "request_id", w.x.req.ID(),
			"target", w.x.req.Target())
		w.header.Del(bad.Name)
	}
}
