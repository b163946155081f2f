package handlers_test

import (
	"testing"

	"github.com/lwango/lwango/handlers"
)

func TestSize(t *testing.T) {
	for text, want := range map[string]handlers.Size{
		"0": 0, "7": 7, "7B": 7, "16KiB": 16384, "16 KiB": 16384, "16kib": 16384, "16kB": 16000, "40MiB": 40 << 20,
		"1GB": 1e9, "2TiB": 2 << 40, "8388607TiB": 8388607 << 40,
	} {
		if got, err := handlers.ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", text, got, err, want)
		}
		if got, err := handlers.ParseSize(want.String()); err != nil || got != want {
			t.Errorf("%d became %q and then %d, %v", want, want, got, err)
		}
	}
	for _, text := range []string{"", "KiB", "-", "1.5KiB", "1 6KiB", "8388608TiB", "1K", "1X", "0x10", "1e3B"} {
		if got, err := handlers.ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
}
