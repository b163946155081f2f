package conn

import (
	"slices"
	"time"
)

// laterLine is what the access log's line of a request needs that may not end for hours: its
// connection was taken over, or its answer goes on. It takes less than half of an AccessEntry.
type laterLine struct {
	c   *connection
	log AccessLog // of the request alone; nil: the server's

	texts []byte           // all of them, one behind the other,
	ends  [lateTexts]int32 // and where each ends

	began           time.Time
	bytes, received int64
	method, proto   string
	upstream        *upstream // nil: none was asked
	remote          peer
	status          int16
	version, cipher uint16 // of TLS
	secure          bool
	hijacked        bool
	cache           CacheUse
}

// The texts of a laterLine.
const (
	lateID = iota
	lateTarget
	lateHost
	lateReferer
	lateUserAgent
	lateUser
	lateTexts
)

// logLater returns what is to be logged when the request has ended, nil without an access log.
func (x *exchange) logLater(hijacked bool) *laterLine {
	if x.accessLog() == nil {
		return nil
	}
	var e AccessEntry
	x.describe(&e)
	w := &laterLine{c: x.c, log: x.req.log, began: e.Time, bytes: e.Bytes, received: e.Received,
		method: e.Method, proto: e.Proto,
		remote: peerOf(e.Remote), status: int16(e.Status), version: e.TLSVersion, cipher: e.CipherSuite,
		secure: e.Secure, hijacked: hijacked, cache: e.Cache}
	if x.upstream.name != "" {
		w.upstream = new(upstream)
		*w.upstream = x.upstream
	}
	texts, end := [lateTexts][]byte{e.ID, e.Target, e.Host, e.Referer, e.UserAgent, []byte(e.User)}, 0
	for i, text := range texts {
		end += len(text)
		w.ends[i] = int32(end)
	}
	w.texts = slices.Concat(texts[:]...)
	return w
}

// text returns one of the texts, nil if it is empty.
func (w *laterLine) text(i int) []byte {
	from := int32(0)
	if i > 0 {
		from = w.ends[i-1]
	}
	if from == w.ends[i] {
		return nil
	}
	return w.texts[from:w.ends[i]]
}

// write logs the request, which has ended, once. If a handler has taken its connection over, any
// goroutine may call it. Else the answer's loop does; the result is the log that has too many lines
// of the connection, nil: none has.
func (w *laterLine) write(h *takeover) (fullLog AccessLog) {
	c, log := w.c, w.log
	if log == nil {
		log = c.port.server.settings.Load().AccessLog
	}
	if log == nil {
		return nil
	}
	e := &AccessEntry{Remote: w.remote.addrPort(), Time: w.began, Duration: time.Since(w.began),
		Method: w.method, Proto: w.proto, User: string(w.text(lateUser)), Status: int(w.status),
		Secure: w.secure, Bytes: w.bytes, ID: w.text(lateID), Received: w.received,
		TLSVersion: w.version, CipherSuite: w.cipher, Cache: w.cache, Target: w.text(lateTarget),
		Host: w.text(lateHost), Referer: w.text(lateReferer), UserAgent: w.text(lateUserAgent),
		Hijacked: w.hijacked, CloseCode: int(h.closeCode)}
	e.setUpstream(w.upstream)
	if m := h.more; m != nil {
		e.Bytes, e.Received = e.Bytes+m.sent, e.Received+m.got
	}
	if w.hijacked {
		log.LogRequest(c.port.loop, e)
		return nil
	}
	e.Share = Share{c.logUsed, c.logGeneration}
	if !log.LogRequest(c.port.loop, e) {
		fullLog = log
	}
	c.logUsed, c.logGeneration = e.Share.Used, e.Share.Generation
	return fullLog
}
