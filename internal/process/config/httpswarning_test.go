package config_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/logtext"
)

// TestBlindListener: where only the header of the PROXY protocol can tell https from http, the log
// warns of a redirect that may be a circle.
func TestBlindListener(t *testing.T) {
	const blind = "[[listener]]\nname = 'p'\naddress = '*:81'\ntrusted_proxies = " +
		"'10.0.0.0/8'\nproxy_protocol = true\n"
	const fields = "[[listener]]\nname = 'f'\naddress = '*:82'\ntrusted_proxies = '10.0.0.0/8'\n"
	for text, want := range map[string]bool{
		blind + "[[site]]\nhttps = 'redirect'\n":                          true,
		blind + fields + "[[site]]\nhttps = 'redirect'\n":                 false,
		blind + fields + "[[site]]\nhttps = 'redirect'\nlistener = 'p'\n": true,
		blind + "[[site]]\n":                      false,
		fields + "[[site]]\nhttps = 'redirect'\n": false,
	} {
		s := source()
		log := new(logtext.Buffer)
		s.Logger = logtext.Logger(t, log)
		if _, err := s.Parse("t.conf", text); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		if got := strings.Contains(log.String(), "https: a listener with proxy_protocol"); got != want {
			t.Errorf("want a warning: %v, got %q\n%s", want, log, text)
		}
	}
}
