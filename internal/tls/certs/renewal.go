package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"github.com/mholt/acmez/v3/acme"
)

// suggestion is what an authority has said of the renewal of a certificate (RFC 9773).
type suggestion struct {
	id        string    // of the certificate; "": nothing is known
	directory string    // of the authority that has said it
	at        time.Time // when to renew it, in the window that the authority suggests
	start     time.Time // of that window
	ask       time.Time // when to ask again; zero: at once
}

const (
	// renewalEvery is how often an authority is asked for a certificate, unless it says how often;
	// then the pause is between the other two.
	renewalEvery = 6 * time.Hour
	renewalLeast = time.Hour
	renewalMost  = 24 * time.Hour
)

// when returns when a certificate is to be renewed that would be renewed at a certain time. What
// the authority suggests is believed within limits: an order follows a day after the one before at
// the earliest, and the certificate does not run out.
func (r *suggestion) when(leaf *x509.Certificate, at time.Time) time.Time {
	if id, err := acme.ARIUniqueIdentifier(leaf); err != nil || id != r.id || r.at.IsZero() {
		return at
	}
	least := leaf.NotBefore.Add(min(24*time.Hour, leaf.NotAfter.Sub(leaf.NotBefore)/3))
	most := at.Add(leaf.NotAfter.Sub(at) / 2)
	switch {
	case r.at.Before(least):
		return least
	case r.at.After(most):
		return most
	}
	return r.at
}

// replaces returns the identifier of the certificate that an order at an authority is to replace;
// "": there is none, or the authority has not said anything of it.
func (r *suggestion) replaces(at *authority, a *ACME, entry string) string {
	cert, err := a.read(entry)
	if err != nil || r.directory != at.Directory {
		return ""
	}
	if id, err := acme.ARIUniqueIdentifier(cert.Leaf); err != nil || id != r.id {
		return ""
	}
	return r.id
}

// issued notes what an authority has said of a new certificate; nil: nothing.
func (r *suggestion) issued(at *authority, info *acme.RenewalInfo) {
	*r = suggestion{}
	if info != nil && info.HasWindow() {
		r.note(at, *info)
	}
}

// note takes up what an authority has said. A time that was chosen in the same window stays.
func (r *suggestion) note(at *authority, info acme.RenewalInfo) {
	pause := renewalEvery
	if info.RetryAfter != nil {
		pause = min(max(time.Until(*info.RetryAfter), renewalLeast), renewalMost)
	}
	if r.id != info.UniqueIdentifier || !r.start.Equal(info.SuggestedWindow.Start) {
		r.at = info.SelectedTime
	}
	r.id, r.directory, r.start = info.UniqueIdentifier, at.Directory, info.SuggestedWindow.Start
	r.ask = time.Now().Add(pause)
}

// askRenewals asks the authorities when they want the certificates to be renewed, where it is time.
// After a failure, the rest waits for the next time: the authority may be down.
func (t *task) askRenewals(ctx context.Context) {
	for _, domain := range t.config.Domains {
		r := &t.tried[domain].suggested
		cert, err := t.config.read(domain)
		if err != nil || time.Now().Before(r.ask) {
			continue
		}
		for _, at := range t.authorities {
			at.transport.begin()
			limited, cancel := context.WithTimeout(ctx, answerLimit)
			var info acme.RenewalInfo
			info, err = at.client.GetRenewalInfo(limited, cert.Leaf)
			cancel()
			if err == nil {
				before := t.due(domain)
				r.note(at, info)
				if now := time.Now(); now.Before(before) && now.After(t.due(domain)) {
					t.log.Warn("certificate is to be renewed at once, the authority says", "domain", domain,
						"explanation", info.ExplanationURL)
				}
				break
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, acme.ErrUnsupported):
			r.ask = time.Now().Add(renewalMost)
		case err != nil:
			for _, a := range t.tried {
				if until := time.Now().Add(renewalLeast); a.suggested.ask.Before(until) {
					a.suggested.ask = until
				}
			}
			t.log.Info("the authority does not say when certificates are to be renewed", "error", err)
			return
		}
	}
}
