package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mholt/acmez/v3/acme"
)

// certificate is what an order brings.
type certificate struct {
	text    []byte            // in PEM, with its key
	renewal *acme.RenewalInfo // what the authority says of its renewal; nil: nothing
}

// order obtains one certificate for names, which a challenge proves. replaces is the identifier of
// the certificate that it renews (RFC 9773 section 5); "": none, or one of another authority.
func (t *task) order(ctx context.Context, s *session, names []string,
	challenge, replaces string) (*certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	wanted := acme.Order{Replaces: replaces}
	for _, name := range names {
		wanted.Identifiers = append(wanted.Identifiers, acme.Identifier{Type: "dns", Value: name})
	}
	order, err := s.NewOrder(ctx, s.account, wanted)
	if p := (acme.Problem{}); replaces != "" && errors.As(err, &p) && p.Status/100 == 4 &&
		p.Status != http.StatusTooManyRequests {
		// It has been replaced already, by a certificate that was lost, or was another account's.
		wanted.Replaces = ""
		order, err = s.NewOrder(ctx, s.account, wanted)
	}
	if err != nil {
		return nil, err
	}
	if err := t.authorize(ctx, s, order, names, challenge); err != nil {
		return nil, err
	}
	if order, err = s.await(ctx, order, acme.StatusPending); err != nil {
		return nil, err
	}
	key, text, err := newKey()
	if err != nil {
		return nil, err
	}
	ctx, cancel = outlive(ctx, t.options.FinishLimit)
	defer cancel()
	request, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{DNSNames: names}, key)
	if err != nil {
		return nil, err
	}
	done, err := s.FinalizeOrder(ctx, s.account, order, request)
	if err != nil {
		// The answer may be lost, and the certificate issued all the same.
		again, err2 := s.await(ctx, order, acme.StatusProcessing)
		if err2 != nil || again.Status != acme.StatusValid {
			return nil, err
		}
		done = again
	}
	chains, err := s.GetCertificateChain(ctx, s.account, done.Certificate)
	if err != nil {
		return nil, err
	}
	out := &certificate{append(text, chains[0].ChainPEM...), chains[0].RenewalInfo}
	cert, err := tls.X509KeyPair(out.text, out.text)
	if err == nil {
		err = covers(cert.Leaf, names)
	}
	if err != nil {
		return nil, fmt.Errorf("the certificate that has come: %w", err)
	}
	return out, nil
}

// covers returns an error if a certificate is not for all names.
func covers(leaf *x509.Certificate, names []string) error {
	for _, name := range names {
		if err := leaf.VerifyHostname(name); err != nil {
			return err
		}
	}
	return nil
}

// newKey makes a key, and returns it in PEM as well.
func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

// outlive returns a context that ends later than ctx by a duration.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, cancel) })
	return longer, func() { stop(); cancel() }
}

// await asks for an order until it has another status than the one that it is to leave.
func (s *session) await(ctx context.Context, order acme.Order, leave string) (acme.Order, error) {
	for {
		order, err := s.GetOrder(ctx, s.account, order)
		switch {
		case err != nil:
			return order, err
		case order.Status == acme.StatusInvalid && order.Error != nil:
			return order, fmt.Errorf("the order is invalid: %w", *order.Error)
		case order.Status == acme.StatusInvalid:
			return order, errors.New("the order is invalid")
		case order.Status != leave:
			return order, nil
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return order, ctx.Err()
		}
	}
}

// authorize proves to the authority that the names of an order are this server's, where that is not
// proved yet. Nothing is proved of other names, which the authority may ask for: they would reach
// the DNS and its command. All proofs are there before the authority is asked to look at the first
// one.
func (t *task) authorize(ctx context.Context, s *session, order acme.Order, names []string,
	challenge string) error {
	type pending struct {
		z acme.Authorization
		c acme.Challenge
	}
	var all []pending
	for _, url := range order.Authorizations {
		z, err := s.GetAuthorization(ctx, s.account, url)
		if err != nil {
			return err
		}
		if z.Status == acme.StatusValid {
			continue
		}
		if name := z.Identifier.Value; !slices.Contains(names, name) &&
			!slices.Contains(names, "*."+name) {
			return fmt.Errorf("the authority asks for a proof of another name, %q", name)
		}
		i := slices.IndexFunc(z.Challenges, func(c acme.Challenge) bool { return c.Type == challenge })
		if i < 0 {
			return &proofError{z.Identifier.Value, challenge, errNotOffered}
		}
		withdraw, err := t.prove(ctx, z.Challenges[i])
		if err != nil {
			return &proofError{z.Identifier.Value, challenge, err}
		}
		defer withdraw()
		all = append(all, pending{z, z.Challenges[i]})
	}
	if challenge == acme.ChallengeTypeDNS01 && len(all) > 0 {
		select {
		case <-time.After(t.config.DNS.Wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, p := range all {
		if _, err := s.InitiateChallenge(ctx, s.account, p.c); err != nil {
			return err
		}
	}
	for _, p := range all {
		if _, err := s.PollAuthorization(ctx, s.account, p.z); err != nil {
			return &proofError{p.z.Identifier.Value, challenge, err}
		}
	}
	return nil
}

// prove lets the authority find the proof of a challenge until withdraw is called.
func (t *task) prove(ctx context.Context, c acme.Challenge) (withdraw func(), err error) {
	if c.Type == acme.ChallengeTypeDNS01 {
		return t.config.DNS.prove(ctx, t, c)
	}
	own, err := t.proofs.prove(c)
	if err != nil || t.shared == nil {
		return own, err
	}
	id := httpProof + c.Token
	if c.Type == acme.ChallengeTypeTLSALPN01 {
		id = tlsProof + strings.ToLower(c.Identifier.Value)
	}
	also, err := t.shared.storeProof(ctx, id, c.KeyAuthorization)
	if err != nil {
		own()
		return nil, err
	}
	return func() { own(); also() }, nil
}

// proofError says why a name could not be proved by a challenge.
type proofError struct {
	name, challenge string
	err             error
}

var errNotOffered = errors.New("the authority does not offer that")

// Error implements error.
func (e *proofError) Error() string {
	return fmt.Sprintf("authorization error for %s by %s: %v", e.name, e.challenge, e.err)
}

// Unwrap returns the cause.
func (e *proofError) Unwrap() error { return e.err }

// names returns those of an entry of ACME.Domains.
func names(entry string) []string { return strings.Fields(entry) }
