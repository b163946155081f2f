package server

import (
	"bytes"
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
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/lwango/lwango/internal/confpath"
	"github.com/lwango/lwango/internal/sysio"
)

// obtainer obtains certificates, and renews them, by ACME (RFC 8555) and its challenge tls-alpn-01
// (RFC 8737). What it has obtained it leaves as files in a folder, which are pairs of the listeners
// like all others; so no handshake waits for it, and another process may use the same folder.
//
// All of its work is one goroutine's. It is not autocert's Manager, which cannot be ended, keeps an
// authority's reasons to itself, and makes a second order after each that has failed.
type obtainer struct {
	config     *acmeConfig
	challenges *challenges
	news       chan<- struct{} // there is a new file; has room for one
	log        *slog.Logger
	client     *http.Client

	tried  map[string]*attempts // by domain; the goroutine's
	cancel context.CancelFunc
	left   bool // leave was called
	ended  chan struct{}
}

// Each attempt for a domain is followed by a pause, which doubles until the domain has a certificate
// that need not be renewed. An authority may ask for a longer one. The pauses are variables only for
// the tests.
var (
	leastPause = time.Minute
	mostPause  = time.Hour
)

// finishLimit is how long an obtainer goes on after its end for a certificate that the authority
// signs already: it counts those that it gives. It is a variable only for the tests.
var finishLimit = 10 * time.Second

const (
	longestPause = 24 * time.Hour // that an authority may ask for

	// clockPause is until the next order for a domain whose certificate is over already when it comes.
	// When the clock is right, it is not over any more, and that is seen at the next review.
	clockPause = 7 * 24 * time.Hour

	// reviewEvery is how often the files are looked at, whatever the clock did meanwhile.
	reviewEvery = time.Hour

	// orderLimit is for one certificate, and answerLimit for one request. maxAnswer is how many bytes
	// of an answer are read; the longest are chains of certificates.
	orderLimit  = 5 * time.Minute
	answerLimit = time.Minute
	maxAnswer   = 1 << 20
)

// obtain starts the obtainer of the configuration, if it needs one, unless there is one with the same
// settings.
func (s *server) obtain() {
	a := s.config.acme()
	before := s.obtainer
	if before != nil && !before.left && before.config.same(a) {
		return
	}
	before.leave()
	if a == nil {
		return
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		TLSClientConfig:     &tls.Config{RootCAs: s.source.Authorities},
		TLSHandshakeTimeout: answerLimit}
	o := &obtainer{config: a, challenges: &s.challenges, news: s.obtained, log: s.own,
		client: &http.Client{Transport: bounded{transport}, Timeout: answerLimit},
		ended:  make(chan struct{})}
	var ctx context.Context
	ctx, o.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(o.ended)
		defer transport.CloseIdleConnections()
		before.wait() // both may have the same folder
		o.inherit(before)
		o.run(ctx, transport.CloseIdleConnections)
	}()
	s.obtainer = o
}

// leave lets an obtainer end, which may be nil.
func (o *obtainer) leave() {
	if o != nil {
		o.left = true
		o.cancel()
	}
}

// wait waits until an obtainer, which may be nil, has ended after leave. That may take finishLimit.
func (o *obtainer) wait() {
	if o != nil {
		<-o.ended
	}
}

// inherit takes over what before, which has ended, has tried with the same account: other domains
// are no reason to ask for these again at once. before may be nil.
func (o *obtainer) inherit(before *obtainer) {
	o.tried = map[string]*attempts{}
	for _, domain := range o.config.Domains {
		o.tried[domain] = new(attempts)
		if before != nil && before.config.folder == o.config.folder &&
			before.config.Email == o.config.Email && before.tried[domain] != nil {
			o.tried[domain] = before.tried[domain]
		}
	}
}

// attempts is what an obtainer remembers of a domain that has no certificate yet.
type attempts struct {
	pause time.Duration // of the last one; 0: there was none
	next  time.Time

	unwritten []byte // what has been obtained; authorities do not give it twice
}

// run calls rest before it waits.
func (o *obtainer) run(ctx context.Context, rest func()) {
	all := o.tried
	for {
		o.sweep()
		var due []string
		for _, domain := range o.config.Domains {
			if a := all[domain]; time.Now().Before(o.due(domain)) {
				*a = attempts{}
			} else if !time.Now().Before(a.next) {
				due = append(due, domain)
			}
		}
		o.attempt(ctx, due, all)
		if ctx.Err() != nil {
			return
		}
		rest()
		wake := time.Now().Add(reviewEvery)
		for domain, a := range all {
			at := o.due(domain)
			if a.next.After(at) {
				at = a.next
			}
			if at.Before(wake) {
				wake = at
			}
		}
		timer := time.NewTimer(time.Until(wake))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// due returns when the certificate of a domain is to be renewed: a third of its time before its end,
// or 30 days. If there is none that is of use, that is long ago.
func (o *obtainer) due(domain string) (at time.Time) {
	cert, err := confpath.KeyPair(o.config.file(domain), o.config.file(domain))
	if err != nil || cert.Leaf.VerifyHostname(domain) != nil {
		return at
	}
	from, to := cert.Leaf.NotBefore, cert.Leaf.NotAfter
	return to.Add(-min(to.Sub(from)/3, 30*24*time.Hour))
}

// attempt tries to obtain certificates for the domains that are due.
func (o *obtainer) attempt(ctx context.Context, due []string, all map[string]*attempts) {
	if len(due) == 0 {
		return
	}
	client, err := o.register(ctx)
	if err != nil {
		o.postpone(ctx, err, all, due...)
		return
	}
	for _, domain := range due {
		if ctx.Err() != nil {
			return
		}
		var err error
		if a := all[domain]; a.unwritten == nil {
			o.log.Info("certificate is being obtained", "domain", domain, "directory",
				o.config.Directory)
			a.unwritten, err = o.order(ctx, client, domain)
		}
		if err == nil {
			err = o.write(o.config.file(domain), all[domain].unwritten)
		}
		if err == nil {
			all[domain].unwritten = nil
			err = o.checkClock(domain)
			select {
			case o.news <- struct{}{}:
			default: // what was told before has not been heard yet
			}
		}
		o.postpone(ctx, err, all, domain)
	}
}

// postpone lets the domains wait for their next attempts. err is why the last ones have failed; nil
// for one that has not.
func (o *obtainer) postpone(ctx context.Context, err error, all map[string]*attempts,
	domains ...string) {
	if ctx.Err() != nil {
		return
	}
	var longest time.Duration
	for _, domain := range domains {
		a := all[domain]
		a.pause = min(max(2*a.pause, leastPause), mostPause)
		wait := max(a.pause, min(asked(err), longestPause))
		if errors.Is(err, errClock) {
			wait = clockPause
		}
		a.next = time.Now().Add(wait)
		longest = max(longest, wait)
	}
	if err != nil {
		o.log.Error("certificate cannot be obtained", "domains", domains, "error", err,
			"next_attempt_in", longest)
	}
}

// checkClock returns an error if a certificate that has just come is not valid at this computer's
// time. It is kept all the same: the clock may be wrong, and authorities count what they give.
func (o *obtainer) checkClock(domain string) error {
	cert, err := confpath.KeyPair(o.config.file(domain), o.config.file(domain))
	if err != nil {
		return err
	}
	from, to, now := cert.Leaf.NotBefore, cert.Leaf.NotAfter, time.Now()
	if !now.Before(from) && !now.After(to) {
		return nil
	}
	return fmt.Errorf("the certificate that has come is kept, but is good from %s to %s alone: %w %s",
		from.Format(day), to.Format(day), errClock, now.Format(day))
}

var errClock = errors.New("this computer's clock says")

// asked returns the pause that an authority asks for by its error.
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

// register returns a client with an account. It agrees to the authority's terms, as whoever has
// configured its directory does.
func (o *obtainer) register(ctx context.Context) (*acme.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	// What comes from the authority must find a place: it counts what it gives.
	if err := sysio.CheckTempDir(o.config.folder); err != nil {
		return nil, err
	}
	key, err := o.accountKey()
	if err != nil {
		return nil, err
	}
	client := &acme.Client{Key: key, DirectoryURL: o.config.Directory, HTTPClient: o.client,
		RetryBackoff: again, UserAgent: "lwango"}
	account := &acme.Account{}
	if o.config.Email != "" {
		account.Contact = []string{"mailto:" + o.config.Email}
	}
	_, err = client.Register(ctx, account, acme.AcceptTOS)
	if errors.Is(err, acme.ErrAccountAlreadyExists) {
		err = nil
		if account.Contact != nil { // it may be another one than before
			_, err = client.UpdateReg(ctx, account)
		}
	}
	return client, err
}

// again is how long package acme waits before it asks for the n-th time once more; 0: it does not.
// For too many requests there are pauses.
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
func (o *obtainer) accountKey() (crypto.Signer, error) {
	path := filepath.Join(o.config.folder, "account.key")
	text, err := confpath.Read(path, confpath.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		key, text, err := newKey()
		if err == nil {
			err = o.write(path, text)
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
func (o *obtainer) order(ctx context.Context, client *acme.Client,
	domain string) (text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(domain))
	if err != nil {
		return nil, err
	}
	for _, url := range order.AuthzURLs {
		if err := o.authorize(ctx, client, domain, url); err != nil {
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
	ctx, cancel = outlive(ctx, finishLimit)
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

// outlive returns a context that ends by that much later than ctx.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, cancel) })
	return longer, func() { stop(); cancel() }
}

// withProblem adds what package acme does not say of an order that was refused.
func withProblem(err error) error {
	if refused := (*acme.OrderError)(nil); errors.As(err, &refused) && refused.Problem != nil {
		return fmt.Errorf("%w: %w", err, refused.Problem)
	}
	return err
}

// authorize proves that the domain is this server's, if the authority does not know it already.
func (o *obtainer) authorize(ctx context.Context, client *acme.Client, domain, url string) error {
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
	o.challenges.answers.Store(domain, &answer)
	defer o.challenges.answers.Delete(domain)
	if _, err := client.Accept(ctx, z.Challenges[i]); err != nil {
		return err
	}
	_, err = client.WaitAuthorization(ctx, url)
	return err
}

// unfinished begins the names of files that are being written. One that is older than staleAfter is
// left from a process that was killed.
const (
	unfinished = ".new-"
	staleAfter = time.Minute
)

// sweep removes unfinished files, as they have keys. What it cannot remove now it can perhaps at
// the next look.
func (o *obtainer) sweep() {
	entries, _ := os.ReadDir(o.config.folder)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), unfinished) || !entry.Type().IsRegular() {
			continue
		}
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(filepath.Join(o.config.folder, entry.Name()))
		}
	}
}

// write puts a file into the folder, for this user alone, so that nobody sees a part of it, not
// even after a loss of power.
func (o *obtainer) write(path string, text []byte) error {
	f, err := os.CreateTemp(o.config.folder, unfinished+"*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(text))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	if dir, err := os.Open(o.config.folder); err == nil {
		_ = dir.Sync() // some file systems cannot, and the file is there
		dir.Close()
	}
	return nil
}

// bounded bounds the bodies of answers.
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
