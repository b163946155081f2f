package proxy

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

// frame returns one with a payload of n bytes, which look like frames themselves.
func frame(first byte, masked bool, n int) []byte {
	b := []byte{first, 0}
	switch {
	case n < 126:
		b[1] = byte(n)
	case n < 1<<16:
		b[1] = 126
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b[1] = 127
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	if masked {
		b[1] |= 0x80
		b = append(b, "mask"...)
	}
	return append(b, bytes.Repeat([]byte{0x88, 1}, n/2+1)[:n]...)
}

// FuzzFrames: a close frame goes behind the frame that is under way, wherever pieces and frames
// end. plan has a frame in every three bytes: the first byte of its header, and how long it is.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\x81\x00\x05\x02\x00\x00\x89\x80\x7d"), uint16(3), uint8(4))
	f.Add([]byte("\x81\x00\x7e\x81\x80\x7f\x82\x81\x00"), uint16(200), uint8(1))
	f.Add([]byte("\x82\x7f\xff\x80\xff\xff"), uint16(40_000), uint8(255))
	f.Add([]byte("\x81\x00\x01\x88\x00\x02\x81\x00\x01"), uint16(5), uint8(2))
	f.Fuzz(func(t *testing.T, plan []byte, stop uint16, size uint8) {
		if len(plan) > 3*16 {
			return
		}
		var all []byte
		var ends []int    // of the frames
		closes := 1 << 30 // where the first close frame's length is known
		ends = append(ends, 0)
		for ; len(plan) >= 3; plan = plan[3:] {
			n := int(plan[1]&0x7f)<<8 | int(plan[2])
			if plan[1]&0x7f == 0x7f {
				n *= 3 // some are longer than 64 KiB
			}
			begin := len(all)
			all = append(all, frame(plan[0], plan[1]&0x80 != 0, n)...)
			if ends = append(ends, len(all)); plan[0]&0xf == opClose && closes == 1<<30 {
				closes = begin
			}
		}
		at := min(int(stop), len(all)) // the stop comes when so many bytes have come
		want, said := all, false
		for _, end := range ends {
			if end >= at && end <= closes {
				want, said = append(bytes.Clone(all[:end]), goingAway...), true
				break
			}
		}

		var fr frames
		var got []byte
		for from := 0; from <= len(all); {
			stopping := from >= at
			piece := bytes.Clone(all[from:min(from+int(size)+1, len(all))])
			if !stopping {
				piece = piece[:min(len(piece), at-from)]
			}
			n := len(piece)
			if most := fr.Skips(); most > int64(n) && n%2 == 1 { // it need not look
				fr.left -= int64(n)
			} else {
				piece = fr.pass(piece, stopping)
			}
			got = append(got, piece...)
			if from += n; from == len(all) {
				got = append(got, fr.pass(nil, true)...)
				break
			}
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("stopped at %d of %d, frames end at %d: %d bytes, want %d",
				at, len(all), ends, len(got), len(want))
		}
		if fr.sentClose != said {
			t.Errorf("said: %v", fr.sentClose)
		}
	})
}

// TestFrameLength: lengths of a kind that no real frame has are far away and do not overflow.
func TestFrameLength(t *testing.T) {
	for _, c := range []struct {
		b    string
		left int64
		ok   bool
	}{
		{"\x81", 0, false},
		{"\x81\x7e\x00", 0, false},
		{"\x81\x7f\x00\x00\x00\x00\x00\x00\x00", 0, false},
		{"\x81\x00", 0, true},
		{"\x81\x80", 4, true},
		{"\x81\x7e\x00\x01", 1, true}, // not in its shortest form
		{"\x81\xfe\xff\xff", 0xffff + 4, true},
		{"\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", math.MaxInt64, true},
		{"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff", math.MaxInt64, true},
		{"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff", math.MaxInt64, true},
	} {
		if left, ok := frameLength([]byte(c.b)); left != c.left || ok != c.ok {
			t.Errorf("%x: %d, %v", c.b, left, ok)
		}
	}
}
