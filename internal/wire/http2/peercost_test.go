package http2_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http2"
)

// debtor is a Wire, and a peer that owes.
type debtor struct {
	http2.Wire
	now  int64
	held int
}

func newDebtor() *debtor {
	d := &debtor{Wire: http2.NewWire()}
	d.SettingsReceived = true
	return d
}

// frames lets the same frame come until it has come many times, the connection ends, or nothing
// more is read. It returns how often it has come.
func (d *debtor) frames(many int, t http2.Type, id uint32,
	payload string) (n int, code http2.Code) {
	frame := append(http2.AppendHeader(nil, t, 0, id, len(payload)), payload...)
	for n < many {
		d.Received(copy(d.ReadBuffer(), frame))
		_, _, ok, code := d.Next(d.now, d.held)
		if !ok {
			d.Discard(len(d.Unparsed()))
			return n, code
		}
		n++
	}
	return n, http2.NoError
}

// TestDebt: what frames cost, and what pays for them.
func TestDebt(t *testing.T) {
	const calm, fine = http2.EnhanceYourCalm, http2.NoError
	type step struct {
		do     func(d *debtor) (int, http2.Code)
		least  int // times
		most   int
		result http2.Code
	}
	pings := func(many int) func(d *debtor) (int, http2.Code) {
		return func(d *debtor) (int, http2.Code) { return d.frames(many, http2.Ping, 0, "12345678") }
	}
	resets := func(many int) func(d *debtor) (int, http2.Code) {
		return func(d *debtor) (n int, code http2.Code) {
			for n < many && code == fine {
				if _, code = d.frames(1, http2.RSTStream, 1, "1234"); code == fine {
					code = d.ChargeReset()
				}
				n++
			}
			return n, code
		}
	}
	do := func(f func(d *debtor)) func(d *debtor) (int, http2.Code) {
		return func(d *debtor) (int, http2.Code) { f(d); return 0, fine }
	}
	content := func(d *debtor) (int, http2.Code) { return d.frames(1000, http2.Data, 1, "x") }
	taken := do(func(d *debtor) { // the peer has read 10 MB
		st := &http2.Sender{ID: 1, Owner: nobody{}}
		d.Window, d.InitialWindow = 1<<30, 1<<30
		d.Add(st, nobody{})
		p := make([]byte, 16<<10)
		for range 640 {
			d.SendNow(st, p)
			d.Out = d.Out[:0]
		}
	})
	for name, steps := range map[string][]step{
		"pings":  {{pings(5000), 1000, 1100, calm}},
		"resets": {{resets(5000), 200, 220, calm}},
		"empty content": {{func(d *debtor) (int, http2.Code) { return d.frames(5000, http2.Data, 1, "") },
			1000, 1100, calm}},
		"content": {{content, 1000, 1000, fine}},
		"both":    {{pings(700), 700, 700, fine}, {resets(500), 60, 80, calm}},
		"time": {{pings(1000), 1000, 1000, fine}, {do(func(d *debtor) { d.now += 60 }), 0, 0, fine},
			{pings(950), 950, 950, fine}, {pings(500), 30, 50, calm}},
		"answers": {{resets(200), 200, 200, fine}, {do(func(d *debtor) {
			for range 200 {
				d.Refund(http2.StreamRefund)
			}
		}), 0, 0, fine}, {resets(300), 200, 220, calm}},
		"credit":            {{taken, 0, 0, fine}, {pings(20000), 20000, 20000, fine}},
		"credit and resets": {{taken, 0, 0, fine}, {resets(5000), 200, 220, calm}},
		"a socket that is full": {{do(func(d *debtor) { d.held = http2.MaxPendingOutput }), 0, 0, fine},
			{pings(1), 0, 0, fine}},
		"and has room again": {{do(func(d *debtor) { d.held = http2.MaxPendingOutput }), 0, 0, fine},
			{pings(1), 0, 0, fine},
			{do(func(d *debtor) { d.held = 0 }), 0, 0, fine}, {pings(1), 1, 1, fine}},
		"output and frames": {{do(func(d *debtor) { d.held = http2.MaxPendingOutput / 2 }), 0, 0, fine},
			{pings(5000), 310, 330, fine}},
		"a block in pieces": {{func(d *debtor) (int, http2.Code) {
			d.Block.Stream = 1
			return d.frames(5000, http2.Continuation, 1, "")
		}, 100, 140, calm}},
		"a long block": {{func(d *debtor) (int, http2.Code) {
			d.Block.Stream = 1
			return d.frames(5000, http2.Continuation, 1, strings.Repeat("x", 4<<10))
		}, 5000, 5000, fine}},
	} {
		d := newDebtor()
		for i, s := range steps {
			if n, code := s.do(d); n < s.least || n > s.most || code != s.result {
				t.Errorf("%s, step %d: %d times, %v", name, i, n, code)
			}
		}
	}
}

type nobody struct{}

func (nobody) Gathered(int) {}
