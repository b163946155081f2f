package acme

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/asn1"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// verify proves that what listens at an address answers for a name (RFC 8737 section 3).
func verify(address, name, proof string) *Problem {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{ServerName: name, NextProtos: []string{"acme-tls/1"},
		InsecureSkipVerify: true}}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return problem(http.StatusBadRequest, "connection", err.Error())
	}
	defer conn.Close()
	state := conn.(*tls.Conn).ConnectionState()
	wrong := func(format string, args ...any) *Problem {
		return problem(http.StatusForbidden, "unauthorized", fmt.Sprintf(format, args...))
	}
	if state.NegotiatedProtocol != "acme-tls/1" {
		return wrong("the protocol is %q", state.NegotiatedProtocol)
	}
	leaf := state.PeerCertificates[0]
	if !slices.Equal(leaf.DNSNames, []string{name}) || len(state.PeerCertificates) != 1 {
		return wrong("the certificate is for %q", leaf.DNSNames)
	}
	identifier := asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}
	sum := sha256.Sum256([]byte(proof))
	for _, e := range leaf.Extensions {
		if !e.Id.Equal(identifier) {
			continue
		}
		var got []byte
		if rest, err := asn1.Unmarshal(e.Value, &got); err != nil || len(rest) > 0 || !e.Critical ||
			!slices.Equal(got, sum[:]) {
			return wrong("the proof is wrong: % x", e.Value)
		}
		return nil
	}
	return wrong("the certificate has no proof")
}
