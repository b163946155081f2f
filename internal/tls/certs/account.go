package certs

import (
	"context"
	"crypto"
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
	"sync"
	"time"

	"github.com/mholt/acmez/v3/acme"

	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/base/sysio"
)

// authority is an ACME server, as a task uses it.
type authority struct {
	*Authority
	keyFile   string // of the account, in the folder
	transport *transport
	client    *acme.Client
}

// session is an account at an authority.
type session struct {
	*acme.Client
	account acme.Account
}

// newAuthority returns the authority of a; roots verify its server.
func newAuthority(a *Authority, keyFile string, roots *x509.CertPool) *authority {
	t := &transport{Transport: http.Transport{Proxy: http.ProxyFromEnvironment,
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots},
		TLSHandshakeTimeout: answerLimit}}
	return &authority{a, keyFile, t, &acme.Client{Directory: a.Directory, UserAgent: "lwango",
		PollInterval: pollEvery, HTTPClient: &http.Client{Transport: t, Timeout: answerLimit}}}
}

// register returns the account. It agrees to the authority's terms: the operator who has configured
// its directory does so.
func (t *task) register(ctx context.Context, at *authority) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	// What the authority issues must be writable: it limits how many certificates it issues.
	if err := sysio.CheckTempDir(t.config.Folder); err != nil {
		return nil, err
	}
	if t.shared != nil {
		if err := t.storeKey(ctx, at.keyFile); err != nil {
			return nil, err
		}
	}
	key, err := t.accountKey(at.keyFile)
	if err != nil {
		return nil, err
	}
	wanted := acme.Account{TermsOfServiceAgreed: true, PrivateKey: key}
	if t.config.Email != "" {
		wanted.Contact = []string{"mailto:" + t.config.Email}
	}
	if at.EAB != nil {
		if err := wanted.SetExternalAccountBinding(ctx, at.client, at.EAB.binding()); err != nil {
			return nil, err
		}
	}
	account, err := at.client.NewAccount(ctx, wanted)
	if err == nil && wanted.Contact != nil && !slices.Equal(account.Contact, wanted.Contact) {
		changed := acme.Account{Location: account.Location, Contact: wanted.Contact, PrivateKey: key}
		account, err = at.client.UpdateAccount(ctx, changed)
		account.Location = changed.Location // the answer may be without it
	}
	return &session{at.client, account}, err
}

// accountKey returns the key of an account; the first time, it makes one.
func (t *task) accountKey(file string) (crypto.Signer, error) {
	path := filepath.Join(t.config.Folder, file)
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

// transport bounds what an authority sends, and remembers for how long it asks to be left alone:
// package acme drops the header of an answer.
type transport struct {
	http.Transport

	mu    sync.Mutex
	pause time.Duration
	left  int64 // how many bytes may come until begin is called
}

// begin forgets what was, before another attempt.
func (t *transport) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pause, t.left = 0, maxAnswers
}

// asked returns the pause for which the last answer with an error has asked.
func (t *transport) asked() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(t.pause, longestPause)
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := t.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		t.mu.Lock()
		t.pause = retryAfter(answer.Header)
		t.mu.Unlock()
	}
	answer.Body = &boundedBody{answer.Body, t, maxAnswer}
	return answer, nil
}

// retryAfter returns the pause that Retry-After asks for (RFC 9110 section 10.2.3).
func retryAfter(h http.Header) time.Duration {
	after := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil {
		return time.Duration(min(seconds, int(longestPause/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(after); err == nil {
		return time.Until(at)
	}
	return 0
}

// boundedBody is the body of an answer. Its Read fails behind the most bytes that are read.
type boundedBody struct {
	io.ReadCloser
	from *transport
	left int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.from.mu.Lock()
	defer b.from.mu.Unlock()
	b.left -= int64(n)
	b.from.left -= int64(n)
	if b.left < 0 || b.from.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

var errTooLong = errors.New("the authority sends too much")
