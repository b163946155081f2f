package wire_test

import (
	"testing"

	"github.com/lwango/lwango/fastcgi/internal/wire"
)

func TestHeader(t *testing.T) {
	for _, tt := range []struct {
		raw  string
		want wire.Header
		n    int
	}{
		{"\x01\x06\x00\x01\x00\x05\x03\x00", wire.Header{1, wire.Stdout, 1, 5, 3}, 8},
		{"\x02\xff\xab\xcd\xff\xfe\xff\x77rest", wire.Header{2, 255, 0xabcd, 0xfffe, 255}, 8},
		{"\x01\x06\x00\x01\x00\x05\x03", wire.Header{}, 0},
		{"", wire.Header{}, 0},
	} {
		if h, n := wire.ParseHeader([]byte(tt.raw)); h != tt.want || n != tt.n {
			t.Errorf("%q: %+v, %d", tt.raw, h, n)
		}
	}
}

func TestAppendHeader(t *testing.T) {
	for _, tt := range []struct {
		typ  wire.Type
		n    int
		want string
	}{
		{wire.Stdin, 0, "\x01\x05\x00\x01\x00\x00\x00\x00"},
		{wire.Stdin, 0x1234, "\x01\x05\x00\x01\x12\x34\x00\x00"},
		{wire.Params, 65535, "\x01\x04\x00\x01\xff\xff\x00\x00"},
	} {
		if got := string(wire.AppendHeader(nil, tt.typ, tt.n)); got != tt.want {
			t.Errorf("%v of %d: %q", tt.typ, tt.n, got)
		}
	}
	for _, n := range []int{-1, 65536} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a record of %d was begun", n)
				}
			}()
			wire.AppendHeader(nil, wire.Stdin, n)
		}()
	}
}

func TestTypeString(t *testing.T) {
	for typ, want := range map[wire.Type]string{
		0: "", 1: "BEGIN_REQUEST", 4: "PARAMS", 11: "UNKNOWN_TYPE", 12: "", 255: "",
	} {
		if typ.String() != want {
			t.Errorf("%d is %q", typ, typ.String())
		}
	}
}
