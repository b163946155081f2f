package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/tls/crl"
)

// filesInterval is how often files are checked. It is a variable only for the tests.
var filesInterval = time.Minute

// files are the files of a Security that are read again when they change.
type files struct {
	lists     *crl.File // nil: none
	cert, key string    // paths; "": none
	password  string    // of the key
	pair      atomic.Pointer[tls.Certificate]

	version atomic.Int64 // grows when a changed file was read

	mu sync.Mutex
	// of cert and key, before they were read last; zero: they could not be read
	stamp       [2]confpath.Stamp
	errorLogged bool // that was logged
}

// read reads cert and key. If it fails, the pair that it has read before stays. Files that could
// not be read count as changed.
func (f *files) read() error {
	f.stamp = f.stamps()
	pair, err := confpath.KeyPair(f.cert, f.key, f.password)
	if _, unread := errors.AsType[*fs.PathError](err); unread {
		f.stamp = [2]confpath.Stamp{}
	}
	if err == nil {
		f.pair.Store(&pair)
	}
	return err
}

func (f *files) stamps() [2]confpath.Stamp {
	return [2]confpath.Stamp{confpath.StampOf(f.cert), confpath.StampOf(f.key)}
}

// certificate returns the pair as the client's certificate.
func (f *files) certificate(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if c := f.pair.Load(); r.SupportsCertificate(c) == nil {
		return c, nil
	}
	return new(tls.Certificate), nil // none, as crypto/tls does: the upstream decides
}

// reloadChanged reads changed files, and returns the version. If a pair cannot be used, the old one
// stays in force.
func (f *files) reloadChanged(now time.Time, log *slog.Logger) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lists != nil {
		if renewed, _ := f.lists.Renew(now, log); renewed {
			f.version.Add(1)
		}
	}
	if f.cert == "" || f.stamps() == f.stamp {
		return f.version.Load()
	}
	err := f.read()
	_, unread := errors.AsType[*fs.PathError](err)
	switch {
	case err == nil:
		f.version.Add(1)
		log.Info("certificate for upstreams renewed", "cert", f.cert, "expires",
			f.pair.Load().Leaf.NotAfter)
	case !unread || !f.errorLogged:
		log.Error("certificate for upstreams cannot be renewed, the old one stays", "cert", f.cert,
			"error", err)
	}
	f.errorLogged = unread
	return f.version.Load()
}

// at returns the tls.Config of a backend for a handshake that begins now, and the version of its
// files, or an earlier one.
func (s *Security) at(c *tls.Config) (*tls.Config, int64) {
	if s.files == nil {
		return c, 0
	}
	version := s.files.version.Load()
	c = c.Clone()
	c.ClientSessionCache = versionedSessions{c.ClientSessionCache,
		strconv.FormatInt(version, 10) + " "}
	return c, version
}

// versionedSessions is a cache of TLS sessions by version: a session that began with an earlier
// certificate would still use it. A ticket may arrive at any time later.
type versionedSessions struct {
	tls.ClientSessionCache
	prefix string
}

func (c versionedSessions) Get(key string) (*tls.ClientSessionState, bool) {
	return c.ClientSessionCache.Get(c.prefix + key)
}

func (c versionedSessions) Put(key string, s *tls.ClientSessionState) {
	c.ClientSessionCache.Put(c.prefix+key, s)
}

// madeBefore reports whether a connection was made with an earlier version of the files.
func (srv *server) madeBefore(version int64) bool {
	return srv.security != nil && srv.security.files != nil &&
		srv.security.files.version.Load() != version
}

// WatchFiles reads certificates and revocation lists again when they change, until the end of ctx.
// Then idle connections end: they may be to an upstream whose certificate was revoked. Any
// goroutine except a loop's may call it, once, for a group with such files (HasFiles).
func (g *Group) WatchFiles(ctx context.Context, log *slog.Logger) {
	version := g.filesVersion
	check := func(now time.Time) {
		if v := g.TLS.files.reloadChanged(now, log); v != version {
			version = v
			g.endPersistentConns()
		}
	}
	check(time.Now())
	timer := time.NewTicker(filesInterval)
	defer timer.Stop()
	for {
		select {
		case now := <-timer.C:
			check(now)
		case <-ctx.Done():
			return
		}
	}
}

// HasFiles reports whether the group has files for WatchFiles.
func (g *Group) HasFiles() bool { return g.TLS != nil && g.TLS.files != nil && g.Secure() }

// endPersistentConns ends connections over TLS, those in use with their requests: see madeBefore.
func (g *Group) endPersistentConns() {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	for _, srv := range g.all {
		if srv.security == nil {
			continue
		}
		srv.closeIdleConns()
		srv.retire()
	}
}
