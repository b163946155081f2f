package certs

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/base/sysio"
)

// register returns a client with an account. It agrees to the authority's terms: the operator
// who has configured its directory does so.
func (t *task) register(ctx context.Context) (*acme.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	// What the authority issues must be writable: it limits how many certificates it issues.
	if err := sysio.CheckTempDir(t.config.Folder); err != nil {
		return nil, err
	}
	key, err := t.accountKey()
	if err != nil {
		return nil, err
	}
	client := &acme.Client{Key: key, DirectoryURL: t.config.Directory, HTTPClient: t.client,
		RetryBackoff: again, UserAgent: "lwango"}
	account := &acme.Account{}
	if t.config.Email != "" {
		account.Contact = []string{"mailto:" + t.config.Email}
	}
	_, err = client.Register(ctx, account, acme.AcceptTOS)
	if errors.Is(err, acme.ErrAccountAlreadyExists) {
		err = nil
		if account.Contact != nil { // it may have changed
			_, err = client.UpdateReg(ctx, account)
		}
	}
	return client, err
}

// again is how long package acme waits before it repeats a request for the n-th time; 0: it does
// not. The pauses of a task are for the status 429.
func again(n int, _ *http.Request, answer *http.Response) time.Duration {
	switch {
	case answer.StatusCode == http.StatusBadRequest && n <= 10: // a nonce that was too old
		return 10 * time.Millisecond
	case answer.StatusCode >= http.StatusInternalServerError && n <= 3:
		return time.Duration(n) * time.Second
	}
	return 0
}

// accountKey returns the key of the account; the first time, it makes one.
func (t *task) accountKey() (crypto.Signer, error) {
	path := filepath.Join(t.config.Folder, "account.key")
	text, err := confpath.Read(path, confpath.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		key, text, err := newKey()
		if err == nil {
			err = t.config.write(path, text)
		}
		return key, err
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s has no key in PEM", path)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s has a key that cannot sign", path)
	}
	return signer, nil
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

// order obtains a certificate, and returns it in PEM with its key.
func (t *task) order(ctx context.Context, client *acme.Client,
	domain string) (text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(domain))
	if err != nil {
		return nil, err
	}
	for _, url := range order.AuthzURLs {
		if err := t.authorize(ctx, client, domain, url); err != nil {
			return nil, err
		}
	}
	at := order.URI
	if order, err = client.WaitOrder(ctx, at); err != nil {
		return nil, withProblem(err)
	}
	key, text, err := newKey()
	if err != nil {
		return nil, err
	}
	ctx, cancel = outlive(ctx, t.options.FinishLimit)
	defer cancel()
	request, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{DNSNames: []string{domain}}, key)
	if err != nil {
		return nil, err
	}
	chain, _, err := client.CreateOrderCert(ctx, order.FinalizeURL, request, true)
	if err != nil {
		// Package acme needs a field Location in the answer, which some authorities leave out: RFC 8555
		// section 7.4 asks for it only where an order is new.
		order, err2 := client.WaitOrder(ctx, at)
		if err2 == nil && order.Status == acme.StatusValid {
			chain, err = client.FetchCert(ctx, order.CertURL, true)
		} else if refused := (*acme.OrderError)(nil); errors.As(err2, &refused) {
			err = err2
		}
	}
	if err != nil {
		return nil, withProblem(err)
	}
	for _, der := range chain {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	cert, err := tls.X509KeyPair(text, text)
	if err == nil {
		err = cert.Leaf.VerifyHostname(domain)
	}
	if err != nil {
		return nil, fmt.Errorf("the certificate that has come: %w", err)
	}
	return text, nil
}

// outlive returns a context that ends later than ctx by a duration.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, cancel) })
	return longer, func() { stop(); cancel() }
}

// withProblem adds the problem of a refused order to the error of package acme, which omits it.
func withProblem(err error) error {
	if refused := (*acme.OrderError)(nil); errors.As(err, &refused) && refused.Problem != nil {
		return fmt.Errorf("%w: %w", err, refused.Problem)
	}
	return err
}

// authorize proves to the authority that the domain is this server's, if that is not proved yet.
func (t *task) authorize(ctx context.Context, client *acme.Client, domain, url string) error {
	z, err := client.GetAuthorization(ctx, url)
	if err != nil || z.Status == acme.StatusValid {
		return err
	}
	i := slices.IndexFunc(z.Challenges, func(c *acme.Challenge) bool {
		return c.Type == "tls-alpn-01"
	})
	if i < 0 {
		return errors.New("the authority offers no challenge tls-alpn-01")
	}
	answer, err := client.TLSALPN01ChallengeCert(z.Challenges[i].Token, domain)
	if err != nil {
		return err
	}
	t.answers.Store(domain, &answer)
	defer t.answers.Delete(domain)
	if _, err := client.Accept(ctx, z.Challenges[i]); err != nil {
		return err
	}
	_, err = client.WaitAuthorization(ctx, url)
	return err
}

// asked returns the pause for which an authority asks in its error.
func asked(err error) time.Duration {
	var e *acme.Error
	if !errors.As(err, &e) || e.Header == nil {
		return 0
	}
	after := e.Header.Get("Retry-After") // RFC 9110 section 10.2.3
	if seconds, err := strconv.Atoi(after); err == nil {
		return time.Duration(min(seconds, int(longestPause/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(after); err == nil {
		return time.Until(at)
	}
	return 0
}

// bounded limits the size of the bodies of answers.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := b.RoundTripper.RoundTrip(req)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}
