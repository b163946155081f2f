package upstream

import (
	"context"
	"crypto/tls"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/internal/confpath"
	"github.com/lwango/lwango/internal/crl"
)

// filesEvery is how often files are looked at. It is a variable only for the tests.
var filesEvery = time.Minute

// files are those of a Security that are read again when they change.
type files struct {
	lists     *crl.File // nil: none
	cert, key string    // paths; "": none
	pair      atomic.Pointer[tls.Certificate]

	version atomic.Int64 // grows when something else has been read

	mu    sync.Mutex
	stamp [2]confpath.Stamp // of cert and key, as they were tried last
}

// keep notes the pair that was read of files, and returns what shows it to upstreams.
func (f *files) keep(cert, key string, pair tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	f.cert, f.key = cert, key
	f.stamp = [2]confpath.Stamp{confpath.StampOf(cert), confpath.StampOf(key)}
	f.pair.Store(&pair)
	return func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if c := f.pair.Load(); r.SupportsCertificate(c) == nil {
			return c, nil
		}
		return new(tls.Certificate), nil // as crypto/tls does: the upstream says whether that will do
	}
}

// renew reads what has changed, and returns the version. A pair that cannot be used leaves the old one in
// force.
func (f *files) renew(now time.Time, log *slog.Logger) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lists != nil {
		if renewed, _ := f.lists.Renew(now, log); renewed {
			f.version.Add(1)
		}
	}
	if f.cert == "" {
		return f.version.Load()
	}
	if stamp := [2]confpath.Stamp{confpath.StampOf(f.cert), confpath.StampOf(f.key)}; stamp != f.stamp {
		f.stamp = stamp
		pair, err := confpath.KeyPair(f.cert, f.key)
		if err != nil {
			log.Error("certificate for upstreams cannot be renewed, the old one stays", "cert", f.cert, "error", err)
			return f.version.Load()
		}
		f.pair.Store(&pair)
		f.version.Add(1)
		log.Info("certificate for upstreams renewed", "cert", f.cert, "expires", pair.Leaf.NotAfter)
	}
	return f.version.Load()
}

// current is a cache of sessions of the present version: one that was made with an earlier certificate
// would still be that one's.
type current struct {
	tls.ClientSessionCache
	*files
}

func (c current) Get(key string) (*tls.ClientSessionState, bool) {
	return c.ClientSessionCache.Get(c.key(key))
}

func (c current) Put(key string, s *tls.ClientSessionState) { c.ClientSessionCache.Put(c.key(key), s) }

func (c current) key(name string) string { return strconv.FormatInt(c.version.Load(), 10) + " " + name }

// WatchFiles reads certificates and revocation lists again when they change, until the end of ctx. Then
// kept connections end: they may be to an upstream whose certificate was revoked. Any goroutine may call
// it that is not a loop's, for a group that has such files (HasFiles).
func (g *Group) WatchFiles(ctx context.Context, log *slog.Logger) {
	f := g.TLS.files
	version := f.renew(time.Now(), log)
	timer := time.NewTicker(filesEvery)
	defer timer.Stop()
	for {
		select {
		case now := <-timer.C:
			if v := f.renew(now, log); v != version {
				version = v
				g.endKept()
			}
		case <-ctx.Done():
			return
		}
	}
}

// HasFiles reports whether there are files for WatchFiles.
func (g *Group) HasFiles() bool { return g.TLS != nil && g.TLS.files != nil && g.Secure() }

// endKept ends connections over TLS, those in use with their requests.
func (g *Group) endKept() {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	for _, m := range g.all {
		if m.security == nil {
			continue
		}
		m.closeKept()
		m.retire()
	}
}
