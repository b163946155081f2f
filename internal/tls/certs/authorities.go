package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/lwango/lwango/internal/base/confpath"
)

// authorities reads the certificates of authorities from a PEM file. It refuses a file
// with a part that is no certificate, such as one that is cut off. Package x509 skips such a part;
// then the clients of that authority would be refused, and the operator would not see why.
func authorities(path string) (all []*x509.Certificate, err error) {
	text, err := confpath.Read(path, confpath.MaxFile)
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		block, rest := pem.Decode(text)
		// package pem goes on to the next part if it cannot read one.
		switch begun := bytes.Count(text[:len(text)-len(rest)], []byte("-----BEGIN ")); {
		case block == nil && bytes.Contains(text, []byte("-----BEGIN ")), begun > 1:
			return nil, fmt.Errorf("%s: part %d is no PEM (RFC 7468)", path, n)
		case block == nil && all == nil:
			return nil, fmt.Errorf("%s has no certificate in PEM", path)
		case block == nil:
			return all, nil
		case block.Type == "CERTIFICATE":
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("%s: part %d: %w", path, n, err)
			}
			all = append(all, cert)
		case !strings.Contains(block.Type, "PRIVATE KEY") && !strings.Contains(block.Type, "PARAMETERS"):
			// It may say whom not to trust, which would have no effect.
			return nil, fmt.Errorf("%s: part %d: expected a CERTIFICATE, found a %s", path, n, block.Type)
		}
		text = rest
	}
}
