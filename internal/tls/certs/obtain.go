package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// Obtainer obtains certificates, and renews them, by ACME (RFC 8555). It writes the certificates as
// files into a folder, and the server reads them like all others. So no handshake waits for the
// Obtainer, and another process may use the same folder.
//
// It is not autocert's Manager, which cannot be ended, keeps an authority's reasons to itself, and
// makes a second order after each that has failed.
type Obtainer struct {
	// News gets a value when there is a new file.
	News chan struct{}

	options Options
	log     *slog.Logger
	proofs  proofs
	shared  atomic.Pointer[shared] // nil: this server shares nothing
	task    *task                  // nil: none has begun

	mu        sync.Mutex
	tickets   [][32]byte                 // keys of session tickets; nil: each listener has its own
	ticketsAt time.Time                  // when they have changed
	listeners []weak.Pointer[tls.Config] // which ListenerConfig has returned
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

	// StorageEvery is how often a server looks for what others have stored. 0: a minute.
	StorageEvery time.Duration
}

// NewObtainer returns an Obtainer that does nothing yet.
func NewObtainer(o Options, log *slog.Logger) *Obtainer {
	o.LeastPause = cmp.Or(o.LeastPause, time.Minute)
	o.MostPause = cmp.Or(o.MostPause, time.Hour)
	o.FinishLimit = cmp.Or(o.FinishLimit, 10*time.Second)
	o.StorageEvery = cmp.Or(o.StorageEvery, time.Minute)
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
	roots := o.options.Authorities
	t := &task{Obtainer: o, config: a, ended: make(chan struct{}),
		authorities: []*authority{newAuthority(&a.Authority, "account.key", roots)}}
	if a.Fallback != nil {
		t.authorities = append(t.authorities, newAuthority(a.Fallback, "fallback.key", roots))
	}
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(t.ended)
		before.wait() // both may have the same folder
		t.inherit(before)
		t.share()
		t.run(ctx)
		if s := t.shared; s != nil {
			o.shared.Store(nil)
			s.Close()
		}
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

	// The goroutine's.
	authorities []*authority
	tried       map[string]*attempts // by entry of Domains
	shared      *shared              // nil: there is no storage

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
	// of an answer are read; the longest are chains of certificates. pollEvery is how often the
	// authority is asked whether it has done something, unless it says when to ask.
	orderLimit  = 5 * time.Minute
	answerLimit = time.Minute
	maxAnswer   = 1 << 20
	maxAnswers  = 16 << 20 // of an attempt at one authority
	pollEvery   = 250 * time.Millisecond
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

// attempts is what a task remembers of an entry of Domains.
type attempts struct {
	pause time.Duration // after the last attempt; 0: the certificate need not be renewed
	next  time.Time
	rest  map[string]time.Time // until when an authority is not asked, by directory
	turn  int                  // how many challenges have failed; chooses the next one

	unwritten []byte // was issued; authorities do not issue it twice

	suggested suggestion
}

// run is the goroutine of the task.
func (t *task) run(ctx context.Context) {
	for {
		t.config.sweep()
		if t.shared != nil {
			t.reached(ctx, cmp.Or(t.exchange(ctx, t.config.Domains), t.shareTickets(ctx)))
		}
		t.ageTickets()
		var due []string
		for _, domain := range t.config.Domains {
			if a := t.tried[domain]; time.Now().Before(t.due(domain)) {
				if !a.next.IsZero() {
					t.dropPause(domain)
				}
				*a = attempts{turn: a.turn, suggested: a.suggested}
			} else if !time.Now().Before(a.next) {
				due = append(due, domain)
			}
		}
		t.attempt(ctx, due)
		t.askRenewals(ctx)
		for _, at := range t.authorities {
			at.transport.CloseIdleConnections()
		}
		if ctx.Err() != nil {
			return
		}
		wake := time.Now().Add(reviewEvery)
		if t.shared != nil {
			wake = time.Now().Add(t.options.StorageEvery)
		}
		for domain, a := range t.tried {
			at := t.due(domain)
			if a.next.After(at) {
				at = a.next
			}
			for _, at := range []time.Time{at, a.suggested.ask} {
				if !at.IsZero() && at.Before(wake) {
					wake = at
				}
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

// due returns when the certificate of an entry is to be renewed: 30 days, or a third of its time,
// before its end, or when the authority has said. It returns a time long ago if there is no
// certificate that can be used, or one that is still to be written.
func (t *task) due(domain string) (at time.Time) {
	cert, err := t.config.read(domain)
	if err != nil || t.tried[domain].unwritten != nil || covers(cert.Leaf, names(domain)) != nil {
		return at
	}
	from, to := cert.Leaf.NotBefore, cert.Leaf.NotAfter
	at = to.Add(-min(to.Sub(from)/3, 30*24*time.Hour))
	return t.tried[domain].suggested.when(cert.Leaf, at)
}

// attempt tries to obtain certificates for the entries that are due.
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
	if t.shared != nil {
		held, unlock, err := t.lockStorage(ctx)
		if err == nil {
			defer unlock()
			err = t.exchange(held, due)
		}
		if errors.Is(err, errLocked) {
			t.log.Info("another server orders certificates, waiting for it", "domains", due)
			for _, domain := range due {
				t.tried[domain].next = time.Now().Add(min(lockTime/3, t.options.StorageEvery))
			}
			return
		}
		if err != nil {
			t.postpone(ctx, err, due...)
			return
		}
		ctx = held
		due = slices.DeleteFunc(due, func(domain string) bool {
			until := t.foreignPause(ctx, domain)
			if !until.After(time.Now()) {
				return false
			}
			t.tried[domain].next = until
			return true
		})
	}
	due = slices.DeleteFunc(due, func(domain string) bool {
		return time.Now().Before(t.due(domain)) // another process has obtained it meanwhile
	})
	if len(due) == 0 {
		t.tell()
		return
	}
	round := &round{task: t, sessions: map[*authority]*session{}, failed: map[*authority]error{}}
	if err := round.open(ctx, due); err != nil {
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
			a.unwritten, err = round.obtain(ctx, domain)
		}
		if err == nil {
			err = t.config.write(t.config.file(domain), a.unwritten)
		}
		if err == nil {
			a.unwritten = nil
			err = t.checkClock(domain)
			t.tell()
			if t.shared != nil {
				t.reached(ctx, t.exchange(ctx, []string{domain}))
			}
		}
		t.postpone(ctx, err, domain)
	}
}

// round is an attempt for some entries of Domains. Each authority is asked for the account once.
type round struct {
	*task
	sessions map[*authority]*session
	failed   map[*authority]error
}

// session returns the account at an authority.
func (r *round) session(ctx context.Context, at *authority) (*session, error) {
	if r.sessions[at] == nil && r.failed[at] == nil {
		at.transport.begin()
		r.sessions[at], r.failed[at] = r.register(ctx, at)
	}
	return r.sessions[at], r.failed[at]
}

// open returns an error if no authority has an account for this server, for which no entry is to
// blame.
func (r *round) open(ctx context.Context, due []string) (all error) {
	for _, at := range r.authorities {
		_, err := r.session(ctx, at)
		if err == nil {
			return nil
		}
		all = errors.Join(all, err)
		for _, domain := range due {
			r.rest(domain, at)
		}
	}
	return all
}

// rest notes for how long an authority does not want to be asked for an entry.
func (t *task) rest(domain string, at *authority) {
	a := t.tried[domain]
	if a.rest == nil {
		a.rest = map[string]time.Time{}
	}
	a.rest[at.Directory] = time.Now().Add(at.transport.asked())
}

// obtain asks one authority after another for a certificate.
func (r *round) obtain(ctx context.Context, domain string) (text []byte, all error) {
	a := r.tried[domain]
	for i, at := range r.authorities {
		if until := a.rest[at.Directory]; time.Now().Before(until) && len(r.authorities) > 1 {
			all = errors.Join(all, fmt.Errorf("%s has asked for a pause until %s", at.Directory,
				until.Format(day)))
			continue
		}
		s, err := r.session(ctx, at)
		if err == nil {
			at.transport.begin()
			challenge := r.config.Challenges[a.turn%len(r.config.Challenges)]
			r.log.Info("certificate is being obtained", "domain", domain, "directory", at.Directory,
				"challenge", challenge)
			var c *certificate
			c, err = r.order(ctx, s, names(domain), challenge, a.suggested.replaces(at, r.config, domain))
			if err == nil {
				a.suggested.issued(at, c.renewal)
				return c.text, nil
			}
		}
		if ctx.Err() != nil {
			return nil, err
		}
		r.rest(domain, at)
		all = errors.Join(all, err)
		if i+1 < len(r.authorities) {
			r.log.Warn("certificate cannot be obtained, another authority is asked", "domain", domain,
				"directory", at.Directory, "error", err)
		}
	}
	if errors.As(all, new(*proofError)) {
		a.turn++
	}
	return nil, all
}

// tell announces a new file by News.
func (t *task) tell() {
	select {
	case t.News <- struct{}{}:
	default: // the last value was not received yet
	}
}

// postpone sets the pauses of the entries until their next attempts. err is why the last attempt
// has failed, or nil.
func (t *task) postpone(ctx context.Context, err error, domains ...string) {
	if ctx.Err() != nil {
		return
	}
	var longest time.Duration
	for _, domain := range domains {
		a := t.tried[domain]
		a.pause = min(max(2*a.pause, t.options.LeastPause), t.options.MostPause)
		wait := a.pause
		if err != nil {
			wait = max(wait, t.rested(a))
		}
		if errors.Is(err, errClock) {
			wait = clockPause
		}
		a.next = time.Now().Add(wait)
		longest = max(longest, wait)
		if err != nil {
			t.keepPause(domain)
			t.storePause(ctx, domain, a.next)
		} else {
			t.dropPause(domain)
		}
	}
	if err != nil {
		t.log.Error("certificate cannot be obtained", "domains", domains, "error", err,
			"next_attempt_in", longest)
	}
}

// rested returns how long it takes until one of the authorities may be asked.
func (t *task) rested(a *attempts) time.Duration {
	least := longestPause
	for _, at := range t.authorities {
		least = min(least, time.Until(a.rest[at.Directory]))
	}
	return least.Round(time.Second)
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
