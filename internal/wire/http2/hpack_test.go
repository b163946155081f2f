package http2_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http2"
)

// text is what a Decoder makes of a block.
func text(d *http2.Decoder, block []byte) (string, error) {
	var f http2.Fields
	f.Reset(1 << 20)
	err := d.Decode(block, &f)
	return string(f.Buf), err
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// TestDecode: the examples of RFC 7541 appendix C.3 and C.4, whose tables build on each other.
func TestDecode(t *testing.T) {
	first := ":method:GET\n:scheme:http\n:path:/\n:authority:www.example.com\n"
	second := first + "cache-control:no-cache\n"
	third := ":method:GET\n:scheme:https\n:path:/index.html\n:authority:www.example.com\n" +
		"custom-key:custom-value\n"
	for name, blocks := range map[string][3]string{
		"plain": {"8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
			"8286 84be 5808 6e6f 2d63 6163 6865",
			"8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65"},
		"Huffman": {"8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
			"8286 84be 5886 a8eb 1064 9cbf",
			"8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf"},
	} {
		var d http2.Decoder
		for i, want := range []string{first, second, third} {
			if got, err := text(&d, unhex(blocks[i])); err != nil || got != want {
				t.Errorf("%s %d: %q, %v", name, i, got, err)
			}
		}
	}
}

// TestDecodeBad: what no encoder makes.
func TestDecodeBad(t *testing.T) {
	for name, block := range map[string]string{
		"index 0":                   "80",
		"index beyond the table":    "be",
		"name beyond the table":     "7f00 0161",
		"integer too large":         "ffffffffffffff0f",
		"integer cut":               "ff",
		"string cut":                "0005 6162",
		"no value":                  "0001 61",
		"end of string":             "0084 ffff ffff 00",
		"padding of zeroes":         "0081 00 00",
		"padding of a whole octet":  "0082 1fff 00",
		"update behind a field":     "8220",
		"update beyond the setting": "3fe21f",
	} {
		var d http2.Decoder
		if got, err := text(&d, unhex(block)); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestTable: entries leave the table when others need their room, and when its size is lowered.
func TestTable(t *testing.T) {
	var d http2.Decoder
	add := func(name, value string) {
		b := append([]byte{0x40, byte(len(name))}, name...)
		b = append(b, 0x7f, byte(len(value)-0x7f)|0x80, byte((len(value)-0x7f)>>7))
		if _, err := text(&d, append(b, value...)); err != nil {
			t.Fatal(err)
		}
	}
	at := func(i byte) string {
		s, err := text(&d, []byte{0x80 | (61 + i)})
		if err != nil {
			return err.Error()
		}
		return s[:2]
	}
	none := "http2: index of no field"
	big := strings.Repeat("x", 2000)
	for i := range 1000 { // many times what the table holds
		add(string(rune('a'+i%26)), big)
	}
	if at(1) != "l:" || at(2) != "k:" || at(3) != none {
		t.Errorf("%s %s %s", at(1), at(2), at(3))
	}
	d.Trim()
	if at(1) != "l:" || at(2) != "k:" || at(3) != none {
		t.Errorf("trimmed: %s %s %s", at(1), at(2), at(3))
	}
	add("z", strings.Repeat("y", 5000)) // larger than the table
	if at(1) != none {
		t.Error(at(1))
	}
	add("a", big)
	if _, err := text(&d, []byte{0x3f, 0xe1, 0x07}); err != nil { // 1024
		t.Fatal(err)
	}
	if at(1) != none {
		t.Error(at(1))
	}
	add("b", strings.Repeat("x", 900))
	if at(1) != "b:" {
		t.Error(at(1))
	}
}

// TestLimit: a list that is too long is not kept, but the table follows it.
func TestLimit(t *testing.T) {
	var d http2.Decoder
	var f http2.Fields
	f.Reset(100)
	block := append([]byte{0x40, 1, 'a', 60}, strings.Repeat("v", 60)...)
	for range 1000 {
		block = append(block, 0xbe)
	}
	block = append(block, 0x40, 1, 'b', 1, 'w')
	if err := d.Decode(block, &f); err != nil || !f.TooLarge || len(f.List) != 1 || cap(f.Buf) > 1000 {
		t.Errorf("%v %v %d %d", err, f.TooLarge, len(f.List), cap(f.Buf))
	}
	if got, err := text(&d, []byte{0xbe, 0xbf}); err != nil || !strings.HasPrefix(got, "b:w\na:vvv") {
		t.Errorf("%q %v", got, err)
	}
}

// TestEncode: a Decoder understands what is encoded, whatever the lengths.
func TestEncode(t *testing.T) {
	for _, n := range []int{0, 1, 126, 127, 128, 254, 255, 256, 20000} {
		name, value := "X-"+strings.Repeat("n", n), strings.Repeat("v", n)
		block := http2.AppendField(http2.AppendStatus([]byte{http2.NoTable}, 418), name, value)
		block = http2.AppendField(block, "Content-Type", value)
		want := ":status:418\n" + strings.ToLower(name) + ":" + value + "\ncontent-type:" + value + "\n"
		if got, err := text(new(http2.Decoder), block); err != nil || got != want {
			t.Errorf("%d: %v", n, err)
		}
	}
	for _, status := range []int{200, 204, 206, 304, 400, 404, 500, 101, 999} {
		got, _ := text(new(http2.Decoder), http2.AppendStatus(nil, status))
		if want := ":status:" + string([]byte{byte('0' + status/100), byte('0' + status/10%10),
			byte('0' + status%10)}) + "\n"; got != want {
			t.Error(got)
		}
	}
}

// TestDecodeCost: a request of a browser allocates nothing.
func TestDecodeCost(t *testing.T) {
	block := unhex("8287 85bf 8286 84be")
	var d http2.Decoder
	if _, err := text(&d,
		unhex("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff 5886 a8eb 1064 9cbf")); err != nil {
		t.Fatal(err)
	}
	var f http2.Fields
	f.Buf = make([]byte, 0, 1000)
	if n := testing.AllocsPerRun(100, func() {
		f.Reset(1 << 14)
		must.Do(t, d.Decode(block, &f))
	}); n > 1 { // the list, once
		t.Errorf("%v allocations", n)
	}
}

// FuzzDecode: any block decodes, or not, without a panic; what is kept is within the limit; and the
// same blocks give the same.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0x82, 0x86, 0x84, 0x41, 3, 'a', '.', 'b'}, []byte{0xbe})
	f.Add(unhex("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff"), unhex("8286 84be 5886 a8eb 1064 9cbf"))
	f.Add(unhex("3fe11f 40"), unhex("20 40 8825 a849 e95b a97d 7f89 25a8 49e9 5bb8 e8b4 bf be"))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		var d, again http2.Decoder
		var a, b http2.Fields
		for _, block := range [][]byte{one, two} {
			a.Reset(200)
			b.Reset(200)
			again.Trim()
			errA, errB := d.Decode(block, &a), again.Decode(block, &b)
			if (errA == nil) != (errB == nil) || !bytes.Equal(a.Buf, b.Buf) {
				t.Fatalf("%v, %v", errA, errB)
			}
			if errA != nil {
				return
			}
			size := 0
			for _, field := range a.List {
				size += field.Name.Len() + field.Value.Len() + 32
			}
			if size > 200 {
				t.Fatal(size)
			}
			a.Request(false)
		}
	})
}
