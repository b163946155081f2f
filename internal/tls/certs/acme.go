package certs

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/base/sysio"
)

// ACME is acme of [tls].
type ACME struct {
	Table settings.Table `toml:",table"`
	// Email is where the authority may write to.
	Email string `toml:"email"`
	// Domains are the names; each gets a certificate of its own.
	Domains []string `toml:"domains"`
	// Directory is the authority's URL; by default that of Let's Encrypt.
	Directory string `toml:"directory"`
	// Cache is the folder of certificates and keys; by default acme in $STATE_DIRECTORY, or else
	// beside this file.
	Cache string `toml:"cache"`

	// Folder is below that of Cache, for the directory.
	Folder string
}

// same reports whether both have the same settings.
func (a *ACME) same(b *ACME) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Email == b.Email && a.Directory == b.Directory && a.Folder == b.Folder &&
		slices.Equal(a.Domains, b.Domains)
}

// Check checks the keys, and reports errors at the table of the file. Relative paths begin in dir.
// See CheckFolder for made. more says that sites have domains, too: see Add.
func (a *ACME) Check(dir string, made, more bool) {
	if a.Email != "" || a.Table.Has("email") {
		if at, err := mail.ParseAddress(a.Email); err != nil || at.Address != a.Email {
			a.Table.Errorf("email", "expected an address such as admin@example.org, found %q",
				a.Email)
		}
	}
	if len(a.Domains) == 0 && (!more || a.Table.Has("domains")) {
		a.Table.Errorf("domains", "expected the names that certificates are for")
	}
	for i, name := range a.Domains {
		name = ascii.ToLower(name)
		if err := checkDomain(name); err != nil {
			a.Table.Errorf("domains", "%q: %v", a.Domains[i], err)
		} else if slices.Contains(a.Domains[:i], name) {
			a.Table.Errorf("domains", "%q is named twice", a.Domains[i])
		}
		a.Domains[i] = name
	}
	if a.Directory == "" && !a.Table.Has("directory") {
		a.Directory = acme.LetsEncryptURL
		a.Table.Assume("directory", a.Directory)
	}
	at, err := url.Parse(a.Directory)
	if err != nil || at.Scheme != "https" || at.Hostname() == "" || at.User != nil {
		a.Table.Errorf("directory", "expected a URL with https:// (RFC 8555 section 6.1), such as %s",
			acme.LetsEncryptURL)
		return
	}
	cache := a.Cache
	if cache == "" && !a.Table.Has("cache") {
		state, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
		cache = filepath.Join(state, "acme")
		a.Table.Assume("cache", confpath.Join(dir, cache))
	}
	// Certificates of a test directory must not be used for those of another one.
	a.Folder = filepath.Join(confpath.Join(dir, cache), strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' ||
			r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, at.Host+strings.TrimSuffix(at.Path, "/")))
	if err := a.CheckFolder(made); err != nil {
		a.Table.Errorf("cache", "%v", err)
	}
}

// Add adds the hosts of a site with tls = { acme = true } to the domains, and reports those that
// cannot be proved at the table of that.
func (a *ACME) Add(s *Site) {
	for _, f := range s.Files {
		if !f.ACME {
			continue
		}
		if len(s.hosts) == 0 {
			f.Table.Errorf("acme", "needs the key host in the site: certificates are for its hosts")
		}
		for _, name := range s.hosts {
			if err := checkDomain(name); err != nil {
				f.Table.Errorf("acme", "host %q: %v", name, err)
			} else if !slices.Contains(a.Domains, name) {
				a.Domains = append(a.Domains, name)
			}
		}
	}
}

// checkDomain returns why the challenge tls-alpn-01 cannot prove name, which is in lower case.
func checkDomain(name string) error {
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return errors.New("expected a name, and no address")
	}
	if strings.HasPrefix(name, "*.") {
		return errors.New("a wildcard needs another challenge, dns-01; expected the names one by one")
	}
	wrong := errors.New("expected a name such as example.org; what is not ASCII is written xn--")
	if len(name) > 253 {
		return wrong
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, func(r rune) bool {
				return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
			}) {
			return wrong
		}
	}
	return nil
}

// CheckFolder returns an error if the folder cannot be made, or no files in it. The folder of cache
// may be missing, but its parent may not. If made is true, a missing folder is no error of this
// process: a start makes it.
func (a *ACME) CheckFolder(made bool) error {
	dir := a.Folder
	for range 2 {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if made {
			return nil
		}
		dir = filepath.Dir(dir)
	}
	return sysio.CheckTempDir(dir)
}

// MakeFolder makes the folder, if it is missing, for a user and a group; -1: the process's own. It
// returns what it has made, also with an error.
func (a *ACME) MakeFolder(user, group int) (made []string, _ error) {
	for _, dir := range []string{filepath.Dir(a.Folder), a.Folder} {
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			made = append(made, dir)
			if user >= 0 {
				err = os.Lchown(dir, user, group)
			}
		}
		if err != nil {
			return made, a.Table.Wrong("cache", err)
		}
	}
	return made, nil
}

// file is where the certificate of a domain is, with its key.
func (a *ACME) file(domain string) string { return filepath.Join(a.Folder, domain+".pem") }

func (a *ACME) read(domain string) (tls.Certificate, error) {
	return confpath.KeyPair(a.file(domain), a.file(domain))
}

// pairs are those of domains: what has been obtained so far, and what has not.
func (a *ACME) pairs(r *Reader, domains []string, now time.Time, position string) (all []pair) {
	for _, name := range domains {
		p := pair{cert: a.file(name), key: a.file(name), domain: name, position: position}
		p.loadErr = r.load(&p, now) // the Obtainer acts on it, and Set.Keep
		all = append(all, p)
	}
	return all
}

// unfinished is the prefix of the names of files that are being written. A process that was killed
// has left those that are older than staleAfter.
const (
	unfinished = ".new-"
	staleAfter = time.Minute
)

// sweep removes unfinished files, as they have keys. It tries again at the next
// review.
func (a *ACME) sweep() {
	entries, _ := os.ReadDir(a.Folder)
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), unfinished) || !entry.Type().IsRegular() {
			continue
		}
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = os.Remove(filepath.Join(a.Folder, entry.Name()))
		}
	}
}

// write puts a file into the folder, readable by this user alone. No reader sees a part of it, not
// even after a loss of power.
func (a *ACME) write(path string, text []byte) error {
	f, err := os.CreateTemp(a.Folder, unfinished+"*")
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
	if dir, err := os.Open(a.Folder); err == nil {
		_ = dir.Sync() // some file systems cannot, and the file is there
		dir.Close()
	}
	return nil
}
