package conn

import ()

// close flushes and leaves the rest to the loop, which closes the socket. If input is known to be
// unread, close begins a lingering close instead.
func (t *turn) close() {
	if t.flush() != nil && !t.aborted {
		return
	}
	if t.aborted || t.r < t.w || t.unread() {
		t.lingeringClose()
		return
	}
	t.closeTLS()
}

// closeAfter closes the connection behind an answer, complete or cut. A client that did not ask for
// the end (persistent) may be sending its next request already.
func (t *turn) closeAfter(persistent bool) {
	if persistent {
		t.lingeringClose()
		return
	}
	t.close()
}

// lingeringClose begins a lingering close. Behind a cut, closeTLS says nothing, so that a TLS
// client can tell. The caller does nothing more with the connection: its task is a lingering now.
func (t *turn) lingeringClose() {
	c := t.c
	if t.flush() != nil && !t.aborted {
		return
	}
	t.closeTLS()
	if (t.writeErr == nil || t.aborted) && c.Thread.Layer().Descriptor().CloseWrite() == nil {
		c.linger()
	}
}
