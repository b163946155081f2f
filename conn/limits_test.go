package conn_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/conn"
)

func ExampleSize_UnmarshalText() {
	for _, text := range []string{"16KiB", "16kB", "16k"} {
		var n conn.Size
		if err := n.UnmarshalText([]byte(text)); err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(int64(n))
	}
	// Output:
	// 16384
	// 16000
	// unknown unit "k": write one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB
}

func TestConnectionsFor(t *testing.T) {
	const own = 50 // what a server of two loops and two listeners needs
	for descriptors, want := range map[int]int{4: 1, 20: 2, 128: 26, 1024: 324, 20000: 6650,
		1 << 20: 349508} {
		got := conn.ConnectionsFor(descriptors, own)
		if got != want {
			t.Errorf("conn.ConnectionsFor(%d, %d) = %d, want %d", descriptors, own, got, want)
		}
		if descriptors > 100 && got*conn.PerConnection+own > descriptors {
			t.Errorf("%d connections may need more than %d descriptors", got, descriptors)
		}
	}
}

func TestSize(t *testing.T) {
	parse := func(text string) (n conn.Size, err error) {
		err = n.UnmarshalText([]byte(text))
		return n, err
	}
	for text, want := range map[string]conn.Size{
		"0": 0, "7": 7, "7B": 7, "16KiB": 16384, "16 KiB": 16384, "16kib": 16384, "16kB": 16000,
		"40MiB": 40 << 20,
		"1GB":   1e9, "2TiB": 2 << 40, "8388607TiB": 8388607 << 40,
	} {
		if got, err := parse(text); err != nil || got != want {
			t.Errorf("%q is %d, %v, want %d", text, got, err, want)
		}
		if got, err := parse(want.String()); err != nil || got != want {
			t.Errorf("%d became %q and then %d, %v", want, want, got, err)
		}
	}
	for _, text := range []string{"", "KiB", "-", "1.5KiB", "1 6KiB", "8388608TiB", "1K", "1X", "0x10",
		"1e3B"} {
		if got, err := parse(text); err == nil {
			t.Errorf("%q is %d, want an error", text, got)
		}
	}
}
