package http1_test

import (
	"testing"

	"github.com/lwango/lwango/internal/wire/http1"
)

func TestForConnection(t *testing.T) {
	for value, want := range map[string]bool{
		"":                                false,
		"Basic YTpi":                      false,
		"Bearer NTLM":                     false,
		`Basic realm="x"`:                 false,
		"NTLM":                            true,
		"ntlm TlRMTVNTUAAB":               true,
		"Negotiate":                       true,
		"negotiate\tYII=":                 true,
		"NTLMv2 x":                        false,
		`Basic realm="x", Negotiate`:      true,
		`Basic realm="x",NTLM,Bearer a=b`: true,
	} {
		if got := http1.ForConnection(value); got != want {
			t.Errorf("%q: %t", value, got)
		}
		if got := http1.ForConnection([]byte(value)); got != want {
			t.Errorf("%q, bytes: %t", value, got)
		}
	}
}
