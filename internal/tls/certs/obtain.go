package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Obtainer obtains certificates, and renews them, by ACME (RFC 8555) and its challenge tls-alpn-01
// (RFC 8737). It writes the certificates as files into a folder, and the server reads them like
// all others. So no handshake waits for the Obtainer, and another process may use the same folder.
//
// It is not autocert's Manager, which cannot be ended, keeps an authority's reasons to itself, and
// makes a second order after each that has failed.
type Obtainer struct {
	// News gets a value when there is a new file.
	News chan struct{}

	options Options
	log     *slog.Logger
	answers sync.Map // of challenges: a *tls.Certificate for each domain that is being verified
	task    *task    // nil: none has begun
}

// Options are for tests; all may be zero.
type Options struct {
	Authorities *x509.CertPool // by which an ACME server is verified; nil: those of the system

	// Each attempt for a domain is followed by a pause, which doubles until the domain has a
	// certificate that need not be renewed. An authority may ask for a longer one. 0: a minute, and an
	// hour.
	LeastPause, MostPause time.Duration

	// FinishLimit is how long an Obtainer that was told to end still waits for a certificate that the
	// authority is issuing: authorities limit how many they issue. 0: 10 s.
	FinishLimit time.Duration
}

// NewObtainer returns an Obtainer that does nothing yet.
func NewObtainer(o Options, log *slog.Logger) *Obtainer {
	o.LeastPause = cmp.Or(o.LeastPause, time.Minute)
	o.MostPause = cmp.Or(o.MostPause, time.Hour)
	o.FinishLimit = cmp.Or(o.FinishLimit, 10*time.Second)
	return &Obtainer{News: make(chan struct{}, 1), options: o, log: log}
}

// Obtain makes the Obtainer use a from now on; nil: it obtains nothing.
func (o *Obtainer) Obtain(a *ACME) {
	before := o.task
	if before != nil && !before.left && before.config.same(a) {
		return
	}
	o.Leave()
	if a == nil {
		return
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		TLSClientConfig:     &tls.Config{RootCAs: o.options.Authorities},
		TLSHandshakeTimeout: answerLimit}
	t := &task{Obtainer: o, config: a, ended: make(chan struct{}),
		client: &http.Client{Transport: bounded{transport}, Timeout: answerLimit}}
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(t.ended)
		defer transport.CloseIdleConnections()
		before.wait() // both may have the same folder
		t.inherit(before)
		t.run(ctx, transport.CloseIdleConnections)
	}()
	o.task = t
}

// Busy reports whether the Obtainer has a task, or had one.
func (o *Obtainer) Busy() bool { return o.task != nil }

// Leave ends the work soon. Obtain may begin it again.
func (o *Obtainer) Leave() {
	if t := o.task; t != nil {
		t.left = true
		t.cancel()
	}
}

// Wait waits until the work has ended after Leave. That may take FinishLimit.
func (o *Obtainer) Wait() { o.task.wait() }

// task is the work for one ACME, which a goroutine does.
type task struct {
	*Obtainer
	config *ACME
	client *http.Client
	tried  map[string]*attempts // by domain; the goroutine's

	left   bool // Leave was called; the Obtainer's
	cancel context.CancelFunc
	ended  chan struct{}
}

const (
	longestPause = 24 * time.Hour // that an authority may ask for

	// clockPause is the time until the next order for a domain if the new certificate has expired by
	// this computer's clock. Once the clock is right, the next review finds the certificate valid.
	clockPause = 7 * 24 * time.Hour

	// reviewEvery is how often the files are checked, even if the clock was set meanwhile.
	reviewEvery = time.Hour

	// orderLimit is for one certificate, and answerLimit for one request. maxAnswer is how many bytes
	// of an answer are read; the longest are chains of certificates.
	orderLimit  = 5 * time.Minute
	answerLimit = time.Minute
	maxAnswer   = 1 << 20
)

// wait waits until a task, which may be nil, has ended.
func (t *task) wait() {
	if t != nil {
		<-t.ended
	}
}

// inherit takes over the attempts of before, a task that has ended, if the account is the same. A
// change of other domains is no reason to order for these again at once, and neither is a restart.
// before may be nil.
func (t *task) inherit(before *task) {
	t.tried = map[string]*attempts{}
	for _, domain := range t.config.Domains {
		if before != nil && before.config.Folder == t.config.Folder &&
			before.config.Email == t.config.Email && before.tried[domain] != nil {
			t.tried[domain] = before.tried[domain]
		} else {
			t.tried[domain] = t.keptPause(domain)
		}
	}
}

// attempts is what a task remembers of a domain that has no certificate yet.
type attempts struct {
	pause time.Duration // after the last attempt; 0: there was none
	next  time.Time

	unwritten []byte // was issued; authorities do not issue it twice
}

// run calls idle before it waits.
func (t *task) run(ctx context.Context, idle func()) {
	for {
		t.config.sweep()
		var due []string
		for _, domain := range t.config.Domains {
			if a := t.tried[domain]; time.Now().Before(t.due(domain)) {
				if !a.next.IsZero() {
					t.dropPause(domain)
				}
				*a = attempts{}
			} else if !time.Now().Before(a.next) {
				due = append(due, domain)
			}
		}
		t.attempt(ctx, due)
		if ctx.Err() != nil {
			return
		}
		idle()
		wake := time.Now().Add(reviewEvery)
		for domain, a := range t.tried {
			at := t.due(domain)
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

// due returns when the certificate of a domain is to be renewed: 30 days, or a third of its time,
// before its end. It returns a time long ago if there is no certificate that can be used.
func (t *task) due(domain string) (at time.Time) {
	cert, err := t.config.read(domain)
	if err != nil || cert.Leaf.VerifyHostname(domain) != nil {
		return at
	}
	from, to := cert.Leaf.NotBefore, cert.Leaf.NotAfter
	return to.Add(-min(to.Sub(from)/3, 30*24*time.Hour))
}

// attempt tries to obtain certificates for the domains that are due.
func (t *task) attempt(ctx context.Context, due []string) {
	if len(due) == 0 {
		return
	}
	done, err := t.lockFolder(ctx)
	if err != nil {
		t.postpone(ctx, err, due...)
		return
	}
	defer done()
	due = slices.DeleteFunc(due, func(domain string) bool {
		return time.Now().Before(t.due(domain)) // another process has obtained it meanwhile
	})
	if len(due) == 0 {
		t.tell()
		return
	}
	client, err := t.register(ctx)
	if err != nil {
		t.postpone(ctx, err, due...)
		return
	}
	for _, domain := range due {
		if ctx.Err() != nil {
			return
		}
		a := t.tried[domain]
		var err error
		if a.unwritten == nil {
			t.log.Info("certificate is being obtained", "domain", domain, "directory",
				t.config.Directory)
			a.unwritten, err = t.order(ctx, client, domain)
		}
		if err == nil {
			err = t.config.write(t.config.file(domain), a.unwritten)
		}
		if err == nil {
			a.unwritten = nil
			err = t.checkClock(domain)
			t.tell()
		}
		t.postpone(ctx, err, domain)
	}
}

// tell announces a new file by News.
func (t *task) tell() {
	select {
	case t.News <- struct{}{}:
	default: // the last value was not received yet
	}
}

// postpone sets the pauses of the domains until their next attempts. err is why the last attempt
// has failed, or nil.
func (t *task) postpone(ctx context.Context, err error, domains ...string) {
	if ctx.Err() != nil {
		return
	}
	var longest time.Duration
	for _, domain := range domains {
		a := t.tried[domain]
		a.pause = min(max(2*a.pause, t.options.LeastPause), t.options.MostPause)
		wait := max(a.pause, min(asked(err), longestPause))
		if errors.Is(err, errClock) {
			wait = clockPause
		}
		a.next = time.Now().Add(wait)
		longest = max(longest, wait)
		if err != nil {
			t.keepPause(domain)
		} else {
			t.dropPause(domain)
		}
	}
	if err != nil {
		t.log.Error("certificate cannot be obtained", "domains", domains, "error", err,
			"next_attempt_in", longest)
	}
}

// checkClock returns an error if a certificate that was just issued is not valid by this computer's
// clock. The certificate is kept all the same: the clock may be wrong, and authorities limit how
// many certificates they issue.
func (t *task) checkClock(domain string) error {
	cert, err := t.config.read(domain)
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
