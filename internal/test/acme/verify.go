package acme

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// verify proves that the client has the name of an authorization.
func (s *Server) verify(z *authz, proof string) *Problem {
	if z.chosen == "dns-01" {
		return s.verifyDNS(z, proof)
	}
	address := s.listening(z.chosen)
	if z.chosen == "http-01" {
		return verifyHTTP(address, z.name, z.token, proof)
	}
	return verifyTLS(address, z.name, proof)
}

// verifyDNS proves that a name has a record of the client (RFC 8555 section 8.4).
func (s *Server) verifyDNS(z *authz, proof string) *Problem {
	s.mu.Lock()
	records := s.records
	s.mu.Unlock()
	sum := sha256.Sum256([]byte(proof))
	all := records("_acme-challenge." + strings.TrimPrefix(z.name, "*."))
	if !slices.Contains(all, base64.RawURLEncoding.EncodeToString(sum[:])) {
		return problem(http.StatusForbidden, "unauthorized", "the records are wrong: "+
			strings.Join(all, " "))
	}
	return nil
}

// verifyHTTP proves that what listens at an address answers for a name (RFC 8555 section 8.3).
func verifyHTTP(address, name, token, proof string) *Problem {
	req, err := http.NewRequest("GET", "http://"+address+"/.well-known/acme-challenge/"+token, nil)
	var text []byte
	if err == nil {
		req.Host = name
		client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		defer client.CloseIdleConnections()
		var answer *http.Response
		if answer, err = client.Do(req); err == nil {
			defer answer.Body.Close()
			text, err = io.ReadAll(io.LimitReader(answer.Body, 1024))
			if answer.StatusCode != http.StatusOK {
				return problem(http.StatusForbidden, "unauthorized", "status "+answer.Status)
			}
		}
	}
	if err != nil {
		return problem(http.StatusBadRequest, "connection", err.Error())
	}
	if string(text) != proof {
		return problem(http.StatusForbidden, "unauthorized", fmt.Sprintf("the proof is wrong: %q", text))
	}
	return nil
}

// verifyTLS proves that what listens at an address answers for a name (RFC 8737 section 3).
func verifyTLS(address, name, proof string) *Problem {
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
