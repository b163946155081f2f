package certs

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Storage keeps what several servers share: certificates, the account's key, pauses, proofs of
// names and the keys of session tickets. It is that of package pubsub. The folder has copies, by
// which a server serves and starts while the storage is away.
type Storage interface {
	Get(ctx context.Context, key string) (value []byte, err error)
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	Add(ctx context.Context, key string, value []byte, ttl time.Duration) (added bool, err error)
	Extend(ctx context.Context, key string, value []byte, ttl time.Duration) (
		extended bool, err error)
	Remove(ctx context.Context, key string, value []byte) error
	Close()
}

const (
	// lockTime is how long the lock stays that a server has not extended: it may have died.
	lockTime = 30 * time.Second

	// ticketsEvery is how often the keys of session tickets change. A ticket is good while its key is
	// one of mostTickets.
	ticketsEvery = 12 * time.Hour
	mostTickets  = 3

	// proofLimit is how long a handshake or a request waits for a proof of another server, of which
	// mostProofs are asked for at a time: anyone may ask.
	proofLimit = 2 * time.Second
	mostProofs = 8

	// tlsProof is before a name, and httpProof before a token, for which there is a proof.
	tlsProof  = "tls:"
	httpProof = "http:"
)

// shared is the storage, as a task uses it.
type shared struct {
	Storage
	prefix string // of keys, for the directory
	owner  []byte // this process, in a lock
	away   bool   // an error was logged; the goroutine's

	asking chan struct{} // has a value for each proof that is asked for
}

// share opens the storage. A task without one has no shared.
func (t *task) share() {
	a := t.config
	if a.OpenStorage == nil {
		return
	}
	s, err := a.OpenStorage()
	if err != nil {
		t.log.Error("the storage of certificates cannot be used", "error", err)
		return
	}
	t.shared = &shared{Storage: s, prefix: "acme:" + filepath.Base(a.Folder) + ":",
		owner: []byte(rand.Text()), asking: make(chan struct{}, mostProofs)}
	t.Obtainer.shared.Store(t.shared)
}

// reached notes whether the storage has answered, and logs a change.
func (t *task) reached(ctx context.Context, err error) {
	switch s := t.shared; {
	case ctx.Err() != nil: // it may be but the end
	case err == nil && s.away:
		t.log.Info("the storage of certificates is back")
		s.away = false
	case err != nil && !s.away:
		t.log.Warn("the storage of certificates is away; what is in the folder stays in force, and "+
			"nothing is obtained meanwhile", "error", err)
		s.away = true
	}
}

// exchange takes over the certificates of entries that other servers have stored, and stores those
// that only this one has.
func (t *task) exchange(ctx context.Context, entries []string) error {
	for _, entry := range entries {
		key := t.shared.prefix + "cert:" + filepath.Base(t.config.base(entry))
		stored, err := t.shared.Get(ctx, key)
		if err != nil {
			return err
		}
		own, _ := os.ReadFile(t.config.file(entry)) // it may not be there yet
		if bytes.Equal(own, stored) {
			continue
		}
		switch issued(stored, entry).Compare(issued(own, entry)) {
		case 1:
			if err := t.config.write(t.config.file(entry), stored); err != nil {
				t.log.Error("certificate of the storage cannot be written", "domain", entry, "error", err)
				continue
			}
			t.dropPause(entry)
			t.tell()
		case -1:
			if err := t.shared.Set(ctx, key, own, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// issued returns since when a certificate for an entry, with its key, in PEM, is valid; the zero
// time if it is none.
func issued(text []byte, entry string) time.Time {
	cert, err := tls.X509KeyPair(text, text)
	if err != nil || covers(cert.Leaf, names(entry)) != nil {
		return time.Time{}
	}
	return cert.Leaf.NotBefore
}

// lockStorage keeps other servers from ordering until done is called, and returns errLocked if one
// of them orders. lost ends when another server may order all the same.
func (t *task) lockStorage(ctx context.Context) (lost context.Context, done func(), err error) {
	s, key := t.shared, t.shared.prefix+"lock"
	switch ok, err := s.Add(ctx, key, s.owner, lockTime); {
	case err != nil:
		return nil, nil, err
	case !ok:
		return nil, nil, errLocked
	}
	lost, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		for valid := time.Now().Add(lockTime); ; {
			select {
			case <-lost.Done():
				return
			case <-time.After(lockTime / 6):
			}
			switch ok, err := s.Extend(lost, key, s.owner, lockTime); {
			case err == nil && ok:
				valid = time.Now().Add(lockTime)
			case err == nil || time.Until(valid) < lockTime/3:
				return
			}
		}
	}()
	return lost, func() {
		cancel()
		<-ended
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), proofLimit)
		defer cancel()
		_ = s.Remove(ctx, key, s.owner) // else it ends by itself
	}, nil
}

var errLocked = errors.New("another server orders certificates")

// storeKey makes all servers have the same key in a file of the folder: the account's.
func (t *task) storeKey(ctx context.Context, file string) error {
	path, key := filepath.Join(t.config.Folder, file), t.shared.prefix+file
	stored, err := t.shared.Get(ctx, key)
	if err != nil {
		return err
	}
	own, err := os.ReadFile(path)
	switch {
	case stored != nil && bytes.Equal(own, stored):
		return nil
	case stored != nil:
		return t.config.write(path, stored)
	case err != nil: // this server has none
		if _, own, err = newKey(); err == nil {
			err = t.config.write(path, own)
		}
		if err != nil {
			return err
		}
	}
	return t.shared.Set(ctx, key, own, 0)
}

// storePause lets other servers know of a pause; foreignPause returns the end of one.
func (t *task) storePause(ctx context.Context, entry string, until time.Time) {
	if t.shared != nil {
		_ = t.shared.Set(ctx, t.pauseKey(entry), []byte(until.UTC().Format(time.RFC3339)),
			max(time.Until(until), time.Second))
	}
}

func (t *task) foreignPause(ctx context.Context, entry string) (until time.Time) {
	text, err := t.shared.Get(ctx, t.pauseKey(entry))
	if err == nil {
		until, err = time.Parse(time.RFC3339, string(text))
	}
	if err != nil || time.Until(until) > max(clockPause, longestPause) {
		return time.Time{}
	}
	return until
}

func (t *task) pauseKey(entry string) string {
	return t.shared.prefix + "pause:" + t.config.account(entry) + ":" + names(entry)[0]
}

// storeProof lets all servers answer for a challenge, which the authority may put to any of them.
func (s *shared) storeProof(ctx context.Context, id, proof string) (withdraw func(), err error) {
	key := s.prefix + "proof:" + id
	if err := s.Set(ctx, key, []byte(proof), 2*orderLimit); err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), proofLimit)
		defer cancel()
		_ = s.Remove(ctx, key, []byte(proof)) // else it ends by itself
	}, nil
}

// proof returns the proof of another server; "": there is none, or too many are asked for.
func (s *shared) proof(ctx context.Context, id string) string {
	const longest = 300
	if s == nil || len(id) > longest {
		return ""
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	default:
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, proofLimit)
	defer cancel()
	text, _ := s.Get(ctx, s.prefix+"proof:"+id)
	return string(text)
}

// shareTickets lets this server take tickets that others have given, by keys that change. A text in
// the storage has when the first key was made, and the keys, the latest first.
func (t *task) shareTickets(ctx context.Context) error {
	key := t.shared.prefix + "tickets"
	text, err := t.shared.Get(ctx, key)
	if err != nil {
		return err
	}
	made, keys := parseTickets(text)
	if age := time.Since(made); len(keys) == 0 || age >= ticketsEvery || age < -ticketsEvery {
		ok, err := t.shared.Add(ctx, key+":lock", t.shared.owner, lockTime)
		if err != nil {
			return err
		}
		if ok {
			keys = nextTickets(keys)
			text = fmt.Appendf(nil, "%d", time.Now().Unix())
			for _, k := range keys {
				text = fmt.Appendf(text, " %x", k)
			}
			if err := t.shared.Set(ctx, key, text, mostTickets*ticketsEvery); err != nil {
				return err
			}
		}
	}
	if len(keys) > 0 {
		t.Obtainer.useTickets(keys)
	}
	return nil
}

// nextTickets puts a new key before the others.
func nextTickets(keys [][32]byte) [][32]byte {
	var next [32]byte
	_, _ = rand.Read(next[:]) // does not fail
	return append([][32]byte{next}, keys[:min(len(keys), mostTickets-1)]...)
}

// ageTickets changes keys that the storage has not changed for long: it is away, or there is none
// any more. crypto/tls, which would do so, leaves that to a server that has set keys.
func (t *task) ageTickets() {
	t.Obtainer.mu.Lock()
	keys, age := t.Obtainer.tickets, time.Since(t.Obtainer.ticketsAt)
	t.Obtainer.mu.Unlock()
	if len(keys) > 0 && age > 2*ticketsEvery {
		t.Obtainer.useTickets(nextTickets(keys))
	}
}

// parseTickets returns no keys if the text is damaged.
func parseTickets(text []byte) (made time.Time, keys [][32]byte) {
	fields := strings.Fields(string(text))
	var seconds int64
	if len(fields) < 2 || len(fields) > 1+mostTickets {
		return made, nil
	}
	if _, err := fmt.Sscanf(fields[0], "%d", &seconds); err != nil {
		return made, nil
	}
	for _, f := range fields[1:] {
		k, err := hex.DecodeString(f)
		if err != nil || len(k) != 32 {
			return made, nil
		}
		keys = append(keys, [32]byte(k))
	}
	return time.Unix(seconds, 0), keys
}

// useTickets sets the keys of session tickets at all listeners, also at those to come.
func (o *Obtainer) useTickets(keys [][32]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.tickets) == len(keys) && o.tickets[0] == keys[0] {
		return
	}
	o.tickets, o.ticketsAt = keys, time.Now()
	live := o.listeners[:0]
	for _, w := range o.listeners {
		if c := w.Value(); c != nil {
			c.SetSessionTicketKeys(keys)
			live = append(live, w)
		}
	}
	o.listeners = live
}
