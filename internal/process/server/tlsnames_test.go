package server_test

import (
	"strings"
	"testing"
	"time"
)

// TestCertWithoutName: a certificate without a DNS name is warned of where clients cannot use it.
func TestCertWithoutName(t *testing.T) {
	for _, test := range []struct{ name, keys, want string }{
		{"a.test", "strict_sni = true\n", ""},
		{"127.0.0.1", "", ""},
		{"127.0.0.1", "strict_sni = true\n",
			"certificate has no DNS name, so strict_sni keeps it from all clients"},
		{"", "", "certificate has no DNS name (subjectAltName), so clients that verify it refuse it"},
	} {
		s := startTLS(t, func(s *tlsServer) {
			s.put("a", test.name, 90*24*time.Hour)
		}, test.keys+`tls = [{cert = "a.pem", key = "a.key"}]`)
		log := s.log.String()
		if test.want == "" {
			if strings.Contains(log, "has no DNS name") {
				t.Errorf("%q: %s", test.name, log)
			}
		} else if !strings.Contains(log, test.want) {
			t.Errorf("%q: no %q in %s", test.name, test.want, log)
		}
	}
}
