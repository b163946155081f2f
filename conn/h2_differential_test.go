package conn_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/wire/http2"
)

// FuzzHTTP2Differential sends the same frames to a server and to net/http's, both with the same
// handler, and compares what they do: status, fields and content of each stream, its error, and
// that of the connection. Where they may differ is written down: in the tables of
// h2_fuzzframes_test.go (fields that are refused here), in refused2 (how a malformed request is
// refused) and in ends2 (how a connection ends).
func FuzzHTTP2Differential(f *testing.F) {
	random := rand.New(rand.NewPCG(7541, 9113))
	for range 30 {
		script := make([]byte, 20+random.IntN(100))
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		f.Add(script)
	}
	for i := range byte(max(len(heads2), len(odd2))) { // each once, with content and without
		f.Add([]byte{0, i, 0, 1, 0, 0, i, 1, 0, i, 0, 5, 0, 4, 1, 0, 0, i, 0, 5, 0, 3, 0, 5, 0, 4, 1})
	}
	for kind := byte(8); kind < ops2; kind++ { // each frame, between others
		for i := range byte(20) {
			f.Add([]byte{0, 1, 0, 0, kind, i, i, i, 5, 0, 4, 1, kind, i, i, i, 0, 0, 0, 1})
		}
	}
	for _, script := range []string{ // what it has found, in the servers or itself
		"0000.B0", "\xdd70C0", "0Cy20", "+0002\xbf809", "0$0080C08", "000070/9\x8f(", "Z007", "0000M70Y",
	} {
		f.Add([]byte(script))
	}
	s := start(f, modes.HTTP2, conn.Config{Handler: conn.HTTP(http.HandlerFunc(tell2))})
	theirs := standard2(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &differential2{script2: script2{data}, t: t, window: http2.DefaultWindow,
			ours: dialPeer2(t, s.Addr), theirs: dialPeer2(t, theirs)}
		defer d.ours.Close()
		defer d.theirs.Close()
		d.run()
	})
}

// A sent2 is a stream that the script has opened.
type sent2 struct {
	id   uint32
	done bool // no more of the request will come
	// the client has reset it, or sent too much, while its answer may have been under way
	given  bool
	window int64  // for the answer
	why    string // it may be refused by ours alone

	// Either server has reset the stream for its head. net/http then counts it as idle if a field was
	// malformed, which it is not (RFC 9113 section 5.1): nothing more is sent on it.
	bad bool
}

// A differential2 gives both servers one frame after the other.
type differential2 struct {
	script2
	t            *testing.T
	ours, theirs *peer2
	streams      []*sent2
	next         uint32
	window       int64 // of new streams
	pings        int
	said         []string // for the reader of a failure
}

// The kinds of steps: 0 to 4 open a stream, 5 to 7 send content.
const (
	trailerOp2 = 8 + iota
	resetOp2
	updateOp2
	priorityOp2
	pingOp2
	settingsOp2
	otherOp2
	blockOp2
	ops2
)

// maxOps2 bounds a script: no limit of either server is to be met.
const maxOps2 = 40

func (d *differential2) run() {
	d.next = 1
	d.settle("preface")
	for n := 0; n < maxOps2 && d.more(); n++ {
		if name := d.op(); name != "" && !d.settle(name) {
			return
		}
	}
	for _, s := range d.streams { // what waits for a window gets one
		if s.done && !s.given && !s.bad && s.window < bodySize2 {
			d.send(http2.WindowUpdate, 0, s.id, "\x00\x01\x00\x00")
			s.window += 1 << 16
		}
	}
	d.settle("window")
}

// send gives a frame to both.
func (d *differential2) send(kind http2.Type, flags uint8, id uint32, payload string) {
	d.said = append(d.said,
		fmt.Sprintf("type %#x flags %#x stream %d %.200q", uint8(kind), flags, id, payload))
	d.ours.frame(kind, flags, id, payload)
	d.theirs.frame(kind, flags, id, payload)
}

// op does the next step, and returns what it was.
func (d *differential2) op() string {
	switch op := d.below(ops2); op {
	default:
		if op > 4 {
			return d.content()
		}
		return d.open()
	case trailerOp2:
		return d.trailer()
	case resetOp2:
		s := d.stream()
		if s == nil {
			d.send(http2.RSTStream, 0, d.next, "\x00\x00\x00\x08")
			return "reset of an idle stream"
		}
		s.done, s.given = true, true
		d.send(http2.RSTStream, 0, s.id, uint32Of(uint32(d.below(16))))
		return "reset"
	case updateOp2:
		return d.update()
	case priorityOp2:
		id, on := d.next+uint32(d.below(3)), uint32(d.below(8))
		if s := d.stream(); s != nil {
			id = s.id
		}
		payload := pick2(&d.script2,
			[]string{"\x00\x00\x00\x00\x10", uint32Of(on) + "\xff", uint32Of(id) + "\x10", "1234"})
		d.send(http2.Priority, 0, id, payload)
		if s := d.find(id); s != nil && (len(payload) == 4 || payload == uint32Of(id)+"\x10") {
			s.given = true
		}
		return "priority"
	case pingOp2:
		return d.one("ping", pick2(&d.script2, pings2))
	case settingsOp2:
		n := d.below(len(settings2) + 6)
		if n < len(settings2) {
			return d.one("settings", settings2[n])
		}
		sizes := []int64{0, 4, http2.DefaultWindow, 1 << 20, http2.LargestWindow, 1 << 16}
		window := sizes[n-len(settings2)]
		for _, s := range d.streams {
			s.window += window - d.window
		}
		d.window = window
		d.send(http2.SettingsFrame, 0, 0, "\x00\x04"+uint32Of(uint32(window)))
		return "window"
	case otherOp2:
		f := pick2(&d.script2, others2)
		if s := d.find(f.id); s != nil {
			s.given = true // whatever it is, the answer may be under way
		}
		return d.one("other", f)
	case blockOp2:
		s := d.add()
		s.done = true
		d.send(http2.Headers, http2.EndHeaders|http2.EndStream, s.id, pick2(&d.script2, blocks2))
		return "block"
	}
}

func (d *differential2) one(name string, f frame2) string {
	d.send(f.kind, f.flags, f.id, f.payload)
	return name
}

// stream returns one of the streams on which something can be sent; nil: an idle one is meant.
func (d *differential2) stream() *sent2 {
	var all []*sent2
	for _, s := range slices.Backward(d.streams) {
		if !s.bad {
			all = append(all, s)
		}
	}
	if n := d.below(len(all) + 1); n < len(all) {
		return all[n]
	}
	return nil
}

func (d *differential2) find(id uint32) *sent2 {
	for _, s := range d.streams {
		if s.id == id {
			return s
		}
	}
	return nil
}

func (d *differential2) add() *sent2 {
	s := &sent2{id: d.next, window: d.window}
	d.next += 2
	d.streams = append(d.streams, s)
	return s
}

// open sends a request, or its beginning.
func (d *differential2) open() string {
	s := d.add()
	head, odd := pick2(&d.script2, heads2), pick2(&d.script2, odd2)
	form := d.below(64)
	s.why = head.why + odd.why
	// A handler of ours need not wait for the end of content of no length; net/http's does.
	empty := slices.Equal(odd.fields, []string{"content-length", "0"})
	s.done = form&1 != 0 || s.why != "" || empty
	if s.done && slices.Contains(odd.fields, "content-length") && !empty {
		s.why = "no content is not as long as that (RFC 9113 section 8.1.1)"
	}
	flags := uint8(http2.EndHeaders)
	if s.done {
		flags |= http2.EndStream
	}
	fields := block(slices.Concat(head.fields, odd.fields)...)
	rest := ""
	if form&2 != 0 { // in three frames
		flags &^= http2.EndHeaders
		fields, rest = fields[:len(fields)/2], fields[len(fields)/2:]
	}
	if form&12 == 12 {
		fields, flags = uint32Of(s.id-1)+"\x10"+fields, flags|http2.PriorityFlag
	}
	if form&48 == 48 {
		fields, flags = "\x03"+fields+"\x00\x00\x00", flags|http2.Padded
	}
	d.send(http2.Headers, flags, s.id, fields)
	if form&2 != 0 {
		d.send(http2.Continuation, 0, s.id, "")
		d.send(http2.Continuation, http2.EndHeaders, s.id, rest)
		return "cut request"
	}
	return "request"
}

// ready returns a stream on which more of a request can be sent. One that either server has reset,
// or ended before its request was at its end, is left alone: for how long it takes what may have
// been on its way is up to the server (RFC 9113 section 5.1, closed).
func (d *differential2) ready() *sent2 {
	s := d.stream()
	if s == nil || d.ours.reset(s) || d.theirs.reset(s) {
		return nil
	}
	if !s.done && (d.ours.answer(s.id).end != "" || d.theirs.answer(s.id).end != "") {
		return nil
	}
	return s
}

// content sends a part of the content.
func (d *differential2) content() string {
	s := d.ready()
	if s == nil {
		return ""
	}
	size, form, flags := []int{0, 1, 7, 100, 1000}[d.below(5)], d.below(8), uint8(0)
	content := strings.Repeat("x", size)
	if form&1 != 0 {
		flags |= http2.EndStream
	}
	if form&6 == 6 {
		content, flags = "\x04"+content+"\x00\x00\x00\x00", flags|http2.Padded
	}
	d.send(http2.Data, flags, s.id, content)
	s.given = s.given || s.done
	s.done = s.done || form&1 != 0
	return "content"
}

func (d *differential2) trailer() string {
	s := d.ready()
	if s == nil {
		return ""
	}
	fields, flags := pick2(&d.script2, trailers2), uint8(http2.EndHeaders|http2.EndStream)
	if d.below(8) == 7 {
		flags = http2.EndHeaders
	}
	d.send(http2.Headers, flags, s.id, block(fields...))
	s.given = s.given || s.done
	s.done = true
	return "trailer"
}

func (d *differential2) update() string {
	s := d.stream()
	n := []int64{0, 1, 100_000, http2.LargestWindow}[d.below(4)]
	if s == nil {
		id := uint32(0)
		if d.below(8) == 7 {
			id = d.next
		}
		d.send(http2.WindowUpdate, 0, id, uint32Of(uint32(n)))
		return "update"
	}
	d.send(http2.WindowUpdate, 0, s.id, uint32Of(uint32(n)))
	// The window may have had room for the answer, which then has come.
	if s.window += n; n == 0 || s.window > http2.LargestWindow {
		s.given = true
	}
	return "update"
}

// settle waits until both servers have acted on what they were sent, and answered where they can,
// and compares what has come. It returns false if a connection has ended.
func (d *differential2) settle(op string) bool {
	d.pings++
	ping := fmt.Sprintf("ping%4d", d.pings)
	for _, p := range []*peer2{d.ours, d.theirs} {
		p.frame(http2.Ping, 0, 0, ping).flush()
		for p.ended == "" && !p.step(ping) {
		}
	}
	for _, p := range []*peer2{d.ours, d.theirs} {
		for _, s := range d.streams {
			early := d.ours.answer(s.id).end != "" || d.theirs.answer(s.id).end != "" // so will the other
			if s.given || s.window < bodySize2 || !s.done && !early {
				continue
			}
			for p.ended == "" && p.answer(s.id).end == "" {
				p.step("")
			}
		}
	}
	if d.ours.ended != "" || d.theirs.ended != "" {
		if !sameEnd2(op, d.ours.ended, d.theirs.ended) {
			d.fail("%s: ours %q, net/http %q", op, d.ours.ended, d.theirs.ended)
		}
		return false
	}
	for _, p := range []*peer2{d.ours, d.theirs} { // a stream may be reset before it is opened
		maps.DeleteFunc(p.seen, func(id uint32, _ *answer2) bool { return id >= d.next })
	}
	for _, s := range d.streams {
		d.compare(s)
		s.bad = s.bad || strings.HasSuffix(op, "request") && (d.ours.reset(s) || d.theirs.reset(s))
	}
	return true
}

// compare compares what has come on a stream, if its answer is complete, or both have refused it.
func (d *differential2) compare(s *sent2) {
	ours, theirs := d.ours.answer(s.id), d.theirs.answer(s.id)
	switch {
	case s.given || ours.end == "" && theirs.end == "":
	case ours.refused2() && (s.why != "" || theirs.refused2()):
	case s.window < bodySize2 && (ours.end == "" || theirs.end == ""):
		// The page of an error is short, and what goes out of it before a window is given differs.
	case s.why != "" || ours.String() != theirs.String():
		d.fail("stream %d (%s)\nours: %v\nnet/http: %v", s.id, s.why, ours, theirs)
	}
}

func (d *differential2) fail(format string, args ...any) {
	d.t.Helper()
	d.t.Fatalf("%s\nsent:\n%s", fmt.Sprintf(format, args...), strings.Join(d.said, "\n"))
}

// An end2 is how the connections may end in different ways after a step.
type end2 struct{ op, ours, theirs, why string }

var ends2 = []end2{
	{"trailer", "GOAWAY STREAM_CLOSED", "GOAWAY PROTOCOL_ERROR", "RFC 9113 section 5.1 has the first"},
	{"trailer", "GOAWAY STREAM_CLOSED", "", "net/http looks at malformed fields before the stream"},
	{"block", "GOAWAY COMPRESSION_ERROR", "",
		"a new size of the table behind fields (RFC 7541 section 4.2), which an empty one of net/http " +
			"takes"},
	{"update", "GOAWAY PROTOCOL_ERROR", "",
		"of an idle stream (RFC 9113 section 5.1); net/http first looks at the increment, which is 0"},
	{"cut request", "", "GOAWAY PROTOCOL_ERROR", "net/http reads no more of a malformed one"},
	{"other", "GOAWAY PROTOCOL_ERROR", "end", "no length of padding: net/http just closes"},
	{"priority", "", "GOAWAY FRAME_SIZE_ERROR", "a stream error (RFC 9113 section 6.3)"},
}

func sameEnd2(op, ours, theirs string) bool {
	return ours == theirs || slices.ContainsFunc(ends2, func(e end2) bool {
		return e.op == op && e.ours == ours && e.theirs == theirs
	})
}
