package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/lwango/lwango/internal/base/confpath"
)

// authorities reads the certificates of authorities from a PEM file. It refuses the file for a
// part that is of no use, such as one that is cut off: package x509 leaves such a part out, and
// the clients of that authority would be refused without a reason that the operator could see.
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
			// Perhaps it says whom not to trust, and that would not be done.
			return nil, fmt.Errorf("%s: part %d: expected a CERTIFICATE, found a %s", path, n, block.Type)
		}
		text = rest
	}
}
