package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"weak"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/loop"
)

// keySet is the keys that sign tokens, of a file or a URL, and their last good content. A goroutine
// reads them again from time to time, and when a token names one that is not known: at most once in
// some seconds, whatever clients send.
type keySet struct {
	path, url string // one of them
	log       *slog.Logger
	client    *http.Client
	least     time.Duration        // between two readings
	set       atomic.Pointer[jwks] // nil: none have come yet

	begun   atomic.Int64                           // when they were read last, since epoch
	reading atomic.Pointer[loop.Promise[struct{}]] // nil: no goroutine reads

	mu    sync.Mutex // of the goroutine that reads
	wrong string     // what was logged last
}

const (
	keysInterval = 10 * time.Minute // of reading again
	keysRetry    = 30 * time.Second // after an error
	keysTimeout  = 10 * time.Second // of a URL
	keysWait     = 3 * time.Second  // of a request
	maxKeysBytes = 1 << 20
	maxKeys      = 100
	leastRSA     = 2048 // bits
	mostRSA      = 8192
)

// keysLeast is the time between two readings, whatever tokens ask for. It is a variable only for
// the tests.
var keysLeast = 10 * time.Second

// latest has, by URL, the keySet in force that has read it last. From there a configuration that
// takes the place of another has its first keys: the provider may be away at a reload.
var latest sync.Map // of weak.Pointer[keySet]

// openKeys reads a file, or prepares the reading of a URL, which begins with the server.
func openKeys(from string, env handlers.Env) (*keySet, error) {
	k := &keySet{log: env.Log(), least: keysLeast}
	u, err := url.Parse(from)
	local := err == nil && slices.Contains([]string{"127.0.0.1", "::1", "localhost"}, u.Hostname())
	switch {
	case from == "":
		return nil, errors.New("missing; expected a file with a JWK Set, or its https URL")
	case err == nil && (u.Scheme == "https" && u.Host != "" || u.Scheme == "http" && local):
		k.url = from
		if p, ok := latest.Load(from); ok {
			if before := p.(weak.Pointer[keySet]).Value(); before != nil {
				k.set.Store(before.set.Load())
			}
		}
		k.client = &http.Client{Timeout: keysTimeout, Transport: &http.Transport{DisableKeepAlives: true,
			MaxResponseHeaderBytes: 64 << 10, Proxy: http.ProxyFromEnvironment},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	case err == nil && u.Scheme == "http":
		return nil, fmt.Errorf("%s: expected an https URL: who is on the way could name other keys", from)
	default:
		k.path = env.Path(from)
		set, err := k.read(context.Background())
		if err != nil {
			return nil, err
		}
		k.set.Store(set)
	}
	env.Background(k.keepFresh)
	return k, nil
}

// keepFresh reads the keys again from time to time, until ctx is done.
func (k *keySet) keepFresh(ctx context.Context) {
	for {
		next, p := keysInterval, new(loop.Promise[struct{}])
		own := k.reading.CompareAndSwap(nil, p) // requests that need the keys wait for that
		if !k.refresh(ctx) {
			next = keysRetry
		}
		if own {
			k.reading.Store(nil)
			p.Resolve(struct{}{})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
	}
}

// renew has a goroutine read the keys again, unless that was done a short time ago, and waits for
// it for some seconds.
func (k *keySet) renew(t *loop.Thread) {
	p := k.reading.Load()
	if p == nil {
		if last := k.begun.Load(); last != 0 && int64(time.Since(epoch))-last < int64(k.least) {
			return
		}
		p = new(loop.Promise[struct{}])
		if !k.reading.CompareAndSwap(nil, p) {
			return
		}
		go func() {
			k.refresh(context.Background())
			k.reading.Store(nil)
			p.Resolve(struct{}{})
		}()
	}
	_, _ = p.Await(t, keysWait)
}

// refresh reads the keys, and reports whether they are good. It logs each error once.
func (k *keySet) refresh(ctx context.Context) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.begun.Store(int64(time.Since(epoch)))
	set, err := k.read(ctx)
	switch {
	case ctx.Err() != nil:
		return false
	case err == nil && k.wrong != "":
		k.log.Info("auth: the keys of tokens can be read again", "keys", k.path+k.url)
		fallthrough
	case err == nil:
		k.wrong = ""
		k.set.Store(set)
		if k.url != "" {
			latest.Store(k.url, weak.Make(k))
		}
	case err.Error() != k.wrong:
		k.wrong = err.Error()
		k.log.Error("auth: the keys of tokens cannot be read, the last good ones count", "keys",
			k.path+k.url, "error", err)
	}
	return err == nil
}

// read reads and parses the keys.
func (k *keySet) read(ctx context.Context) (*jwks, error) {
	var from io.ReadCloser
	if k.path != "" {
		f, err := os.OpenFile(k.path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO would wait
		if err != nil {
			return nil, err
		}
		from = f
	} else {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := k.client.Do(req)
		if err != nil {
			return nil, err
		}
		from = resp.Body
		if resp.StatusCode != http.StatusOK {
			resp.Body.Close()
			return nil, fmt.Errorf("%s answers %s", k.url, resp.Status)
		}
	}
	defer from.Close()
	text, err := io.ReadAll(io.LimitReader(from, maxKeysBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxKeysBytes:
		return nil, fmt.Errorf("%s%s has more than %d MiB", k.path, k.url, maxKeysBytes>>20)
	}
	set, err := parseKeys(text, k.path != "")
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", k.path, k.url, err)
	}
	return set, nil
}

// jwks is the usable keys of a JWK Set. It does not change.
type jwks struct{ keys []key }

type key struct {
	id, alg string
	public  any // *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey, or a secret
}

// parseKeys reads a JWK Set. Keys of kinds that are not known are left out (RFC 7517 section 5),
// and so are secrets, unless the set is a file of this machine's.
func parseKeys(text []byte, secrets bool) (*jwks, error) {
	var list struct {
		Keys []struct{ Kty, Kid, Use, Alg, Crv, N, E, X, Y, K string } `json:"keys"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("no JWK Set: %w", err)
	}
	if len(list.Keys) > maxKeys {
		return nil, fmt.Errorf("more than %d keys", maxKeys)
	}
	set := new(jwks)
	for _, j := range list.Keys {
		var public any
		switch {
		case j.Use != "" && j.Use != "sig":
		case j.Kty == "RSA":
			n, e := new(big.Int).SetBytes(octets(j.N)), new(big.Int).SetBytes(octets(j.E))
			if bits := n.BitLen(); bits >= leastRSA && bits <= mostRSA && e.IsInt64() &&
				e.Int64() > 1 && e.Int64() < 1<<31 && e.Bit(0) == 1 {
				public = &rsa.PublicKey{N: n, E: int(e.Int64())}
			}
		case j.Kty == "EC":
			if c := curves[j.Crv]; c != nil {
				point := slices.Concat([]byte{4}, octets(j.X), octets(j.Y))
				if p, err := ecdsa.ParseUncompressedPublicKey(c, point); err == nil {
					public = p
				}
			}
		case j.Kty == "OKP" && j.Crv == "Ed25519":
			if x := octets(j.X); len(x) == ed25519.PublicKeySize {
				public = ed25519.PublicKey(x)
			}
		case j.Kty == "oct" && secrets:
			if secret := octets(j.K); len(secret) >= 32 {
				public = secret
			}
		}
		if public != nil {
			set.keys = append(set.keys, key{j.Kid, j.Alg, public})
		}
	}
	if len(set.keys) == 0 {
		return nil, errors.New("no key that is usable: expected RSA of 2048 to 8192 bits, EC, Ed25519, " +
			"or in a file a secret (oct) of 32 bytes or more")
	}
	return set, nil
}

var curves = map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(),
	"P-521": elliptic.P521()}

// octets decodes base64url; nil: s is none. A part of a key must not be taken for the key.
func octets(s string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil
	}
	return b
}

// maxTried is how many keys a token is tried with that names none: each try takes the loop's time.
const maxTried = 3

// of returns the keys by which a token may be signed: those of its kid, of the kind that its
// algorithm asks for. So the token does not choose what a key is taken for.
func (s *jwks) of(t *jwt.Token) (found jwt.VerificationKeySet) {
	id, named := t.Header["kid"].(string)
	alg := t.Method.Alg()
	for _, k := range s.keys {
		if named && id != k.id || k.alg != "" && k.alg != alg || !fits(alg, k.public) {
			continue
		}
		if found.Keys = append(found.Keys, k.public); len(found.Keys) == maxTried {
			break
		}
	}
	return found
}

func fits(alg string, public any) bool {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return alg[:2] == "RS" || alg[:2] == "PS"
	case *ecdsa.PublicKey:
		return alg == map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[k.Params().BitSize]
	case ed25519.PublicKey:
		return alg == "EdDSA"
	}
	return alg[:2] == "HS"
}
