package certs

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"
)

// pauseFile is the path of the file with the pause of an entry of Domains whose last attempt has
// failed. A process that a service manager starts again and again would otherwise ask the authority
// at each start, and authorities limit failures, too.
func (a *ACME) pauseFile(domain string) string { return a.base(domain) + ".pause" }

// keepPause writes the end of a domain's pause to its file. If that fails, the pause does not last
// over a restart.
func (t *task) keepPause(domain string) {
	a := t.tried[domain]
	text := fmt.Sprintf("%s %s %s\n", a.next.UTC().Format(time.RFC3339), a.pause,
		t.config.account(domain))
	_ = t.config.write(t.config.pauseFile(domain), []byte(text))
}

// dropPause removes the file of a pause.
func (t *task) dropPause(domain string) { _ = os.Remove(t.config.pauseFile(domain)) }

// keptPause returns the attempts of an earlier process, with the same account, for a domain whose
// pause has not ended; otherwise it returns new ones. A pause that is longer than any is ignored:
// the file may be damaged, or the clock another one.
func (t *task) keptPause(domain string) *attempts {
	a := new(attempts)
	text, err := os.ReadFile(t.config.pauseFile(domain))
	if err != nil {
		return a
	}
	var next, pause, account string
	if _, err := fmt.Fscan(bytes.NewReader(text), &next, &pause, &account); err != nil ||
		account != t.config.account(domain) {
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

// account names the account at the authority in the file of a pause, and the names of an entry of
// Domains that has several.
func (a *ACME) account(entry string) string {
	all := names(entry)
	all[0] = cmp.Or(a.Email, "-")
	return strings.Join(all, "+")
}
