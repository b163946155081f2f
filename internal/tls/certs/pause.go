package certs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// pauseFile is where the pause of a domain is kept whose last attempt has failed. A process that is
// started again and again, by a service manager perhaps, would else ask the authority at each
// start, and authorities count failures too.
func (a *ACME) pauseFile(domain string) string { return filepath.Join(a.Folder, domain+".pause") }

// keepPause writes down until when a domain is not asked for again. What cannot be written is lost
// at a restart.
func (t *task) keepPause(domain string) {
	a := t.tried[domain]
	text := fmt.Sprintf("%s %s %s\n", a.next.UTC().Format(time.RFC3339), a.pause, t.config.account())
	_ = t.config.write(t.config.pauseFile(domain), []byte(text))
}

// dropPause forgets it.
func (t *task) dropPause(domain string) { _ = os.Remove(t.config.pauseFile(domain)) }

// keptPause returns the attempts of an earlier process, with the same account, for a domain that is
// still to wait for its next one; none: it is asked for at once. A time that no attempt gives, by a
// damaged file or another clock, is none.
func (t *task) keptPause(domain string) *attempts {
	a := new(attempts)
	text, err := os.ReadFile(t.config.pauseFile(domain))
	if err != nil {
		return a
	}
	var next, pause, account string
	if _, err := fmt.Fscan(bytes.NewReader(text), &next, &pause, &account); err != nil ||
		account != t.config.account() {
		return a
	}
	at, err := time.Parse(time.RFC3339, next)
	now := time.Now()
	if err != nil || !at.After(now) || at.After(now.Add(max(clockPause, longestPause))) {
		return a
	}
	length, err := time.ParseDuration(pause)
	if err != nil || length < 0 {
		return a
	}
	a.next, a.pause = at, min(length, t.options.MostPause)
	t.log.Warn("certificate is not asked for yet, the last attempt has failed", "domain", domain,
		"next_attempt_in", at.Sub(now).Round(time.Second), "file", t.config.pauseFile(domain))
	return a
}

// account names the account at the authority, which its folder stands for otherwise.
func (a *ACME) account() string {
	if a.Email == "" {
		return "-"
	}
	return a.Email
}
