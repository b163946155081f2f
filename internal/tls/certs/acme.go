package certs

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
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

	"github.com/mholt/acmez/v3/acme"

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
	// Domains are the names; each gets a certificate of its own. Names in one string, with spaces
	// between them, get one together.
	Domains   []string `toml:"domains"`
	Authority `toml:",inline"`
	// Fallback is another authority, which is asked where the first one does not give a certificate.
	Fallback *Authority `toml:"fallback"`
	// Challenges are how names are proved: an attempt takes one, and the attempt after a failure the
	// next one. By default tls-alpn-01, for which the authority connects to port 443, and then
	// http-01, for which it connects to port 80, if a listener speaks HTTP without TLS.
	Challenges []string `toml:"challenges" oneof:"tls-alpn-01 http-01"`
	// DNS is what changes the DNS, for the challenge dns-01, which then proves all names. Wildcards
	// need it.
	DNS *DNS `toml:"dns"`
	// Cache is the folder of certificates and keys; by default acme in $STATE_DIRECTORY, or else
	// beside this file.
	Cache string `toml:"cache"`

	// Storage is the URL of a Redis, as that of [pubsub], by which several servers share what they
	// obtain, and the keys of session tickets; without it they share nothing but Cache.
	Storage string `toml:"storage"`

	// Folder is below that of Cache, for the directory.
	Folder string

	// OpenStorage opens Storage; nil: there is none.
	OpenStorage func() (Storage, error)

	// Records are those of the program, for DNS without a command; nil: it has none.
	Records TXTRecords
}

// Authority is where certificates come from.
type Authority struct {
	Table settings.Table `toml:",table"`
	// Directory is the authority's URL; by default that of Let's Encrypt.
	Directory string `toml:"directory"`
	// EAB binds the account to one that the operator has at the authority: external account binding.
	EAB *EAB `toml:"eab"`
}

// EAB is eab of an Authority (RFC 8555 section 7.3.4).
type EAB struct {
	Table settings.Table `toml:",table"`
	// KID is the key identifier that the authority has given.
	KID string `toml:"kid"`
	// Key is the file of the key that the authority has given, in base64.
	Key string `toml:"key"`

	mac string // as package acme wants it
}

// letsEncrypt is the directory of Let's Encrypt.
const letsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// same reports whether both have the same settings.
func (a *ACME) same(b *ACME) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Email == b.Email && a.Storage == b.Storage && a.Folder == b.Folder &&
		a.Authority.same(&b.Authority) &&
		a.Fallback.same(b.Fallback) && a.DNS.same(b.DNS) && slices.Equal(a.Domains, b.Domains) &&
		slices.Equal(a.Challenges, b.Challenges)
}

func (a *Authority) same(b *Authority) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Directory == b.Directory && a.EAB.binding() == b.EAB.binding()
}

// binding returns what package acme wants; e may be nil.
func (e *EAB) binding() acme.EAB {
	if e == nil {
		return acme.EAB{}
	}
	return acme.EAB{KeyID: e.KID, MACKey: e.mac}
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
	a.checkDomains()
	if a.DNS != nil {
		a.DNS.check(dir, a.Records)
	}
	at := a.Authority.check(dir)
	if a.Fallback != nil {
		a.Fallback.check(dir)
		if a.Fallback.Directory == a.Directory {
			a.Fallback.Table.Errorf("directory", "expected another one than that of acme")
		}
	}
	switch {
	case a.Table.Has("challenges") && a.DNS != nil:
		a.Table.Errorf("challenges", "has no effect beside dns, by which all names are proved")
	case a.Table.Has("challenges") && len(a.Challenges) == 0:
		a.Table.Errorf("challenges", "expected at least one challenge")
	}
	if at == nil {
		return
	}
	cache := a.Cache
	if cache == "" && !a.Table.Has("cache") {
		state, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
		cache = filepath.Join(state, "acme")
		a.Table.Assume("cache", confpath.Join(dir, cache))
	}
	// Certificates of a test directory must not be used for those of another one.
	a.Folder = filepath.Join(confpath.Join(dir, cache), fileName(at))
	if err := a.CheckFolder(made); err != nil {
		a.Table.Errorf("cache", "%v", err)
	}
}

// checkDomains checks the names, and puts them into lower case.
func (a *ACME) checkDomains() {
	seen := map[string]bool{}
	for i, entry := range a.Domains {
		all := names(ascii.ToLower(entry))
		if len(all) == 0 {
			all = []string{""}
		}
		for j, name := range all {
			said := entry
			if len(all) > 1 {
				said = names(entry)[j]
			}
			if err := a.checkDomain(name); err != nil {
				a.Table.Errorf("domains", "%q: %v", said, err)
			} else if seen[name] {
				a.Table.Errorf("domains", "%q is named twice", said)
			}
			seen[name] = true
		}
		if len(all) > mostNames {
			a.Table.Errorf("domains", "%d names for one certificate, expected %d at most", len(all),
				mostNames)
		}
		a.Domains[i] = strings.Join(all, " ")
	}
}

// mostNames is how many names a certificate may have at Let's Encrypt.
const mostNames = 100

// check checks the keys and reads the file of eab. It returns the URL of the directory, or nil.
func (a *Authority) check(dir string) *url.URL {
	if a.Directory == "" && !a.Table.Has("directory") {
		a.Directory = letsEncrypt
		a.Table.Assume("directory", a.Directory)
	}
	u, err := url.Parse(a.Directory)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		a.Table.Errorf("directory", "expected a URL with https:// (RFC 8555 section 6.1), such as %s",
			letsEncrypt)
		u = nil
	}
	if e := a.EAB; e != nil {
		if e.KID == "" || e.Key == "" {
			e.Table.Errorf("", "expected both kid and key, a file, as the authority has given them")
			return u
		}
		e.Key = confpath.Join(dir, e.Key)
		text, err := confpath.Read(e.Key, confpath.MaxFile)
		if err != nil {
			e.Table.Errorf("key", "%v", err)
			return u
		}
		// Authorities write it with the letters of base64url or of base64, and with padding or without.
		e.mac = strings.NewReplacer("+", "-", "/", "_").Replace(
			strings.TrimRight(strings.TrimSpace(string(text)), "="))
		if mac, err := base64.RawURLEncoding.DecodeString(e.mac); err != nil || len(mac) == 0 {
			e.Table.Errorf("key", "%s has no key in base64", e.Key)
		}
	}
	return u
}

// Paths returns the files that Check has read.
func (a *ACME) Paths() (all []string) {
	for _, at := range []*Authority{&a.Authority, a.Fallback} {
		if at != nil && at.EAB != nil {
			all = append(all, at.EAB.Key)
		}
	}
	return all
}

// fileName makes a name for files of the URL of a directory.
func fileName(at *url.URL) string {
	return strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' ||
			r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, at.Host+strings.TrimSuffix(at.Path, "/"))
}

// Clear tells a which listeners speak HTTP without TLS: any, and any at port 80. It reports
// challenges that no listener can answer. The warning it returns is "" or says what is missing
// unless something leads clients of port 80 to another port.
func (a *ACME) Clear(any, at80 bool) (warning string) {
	if a.DNS != nil {
		a.Challenges = []string{acme.ChallengeTypeDNS01}
		return ""
	}
	asked := a.Challenges != nil
	if !asked {
		a.Challenges = []string{acme.ChallengeTypeTLSALPN01}
		if any {
			a.Challenges = append(a.Challenges, acme.ChallengeTypeHTTP01)
		}
	}
	switch {
	case !asked || !slices.Contains(a.Challenges, acme.ChallengeTypeHTTP01):
	case !any:
		a.Table.Errorf("challenges", "http-01 needs a [[listener]] without tls, to which port 80 of "+
			"the names leads")
	case !at80:
		return "no listener answers port 80 without TLS, where the authority looks for the proof of " +
			"http-01: something else must lead it to one"
	}
	return ""
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
		var more []string
		for _, name := range s.hosts {
			if err := a.checkDomain(name); err != nil {
				f.Table.Errorf("acme", "host %q: %v", name, err)
			} else if a.entry(name) == "" {
				more = append(more, name)
			}
		}
		if f.Joint && len(more) > mostNames {
			f.Table.Errorf("joint", "%d names for one certificate, expected %d at most", len(more),
				mostNames)
		}
		if f.Joint && len(more) > 0 {
			more = []string{strings.Join(more, " ")}
		}
		a.Domains = append(a.Domains, more...)
	}
}

// entry returns the entry of Domains that has a name; "": none has.
func (a *ACME) entry(name string) string {
	for _, entry := range a.Domains {
		if slices.Contains(names(entry), name) {
			return entry
		}
	}
	return ""
}

// entries returns those of Domains that have the names.
func (a *ACME) entries(names []string) (all []string) {
	for _, name := range names {
		if entry := a.entry(name); entry != "" && !slices.Contains(all, entry) {
			all = append(all, entry)
		}
	}
	return all
}

// checkDomain returns why no challenge can prove name, which is in lower case.
func (a *ACME) checkDomain(name string) error {
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return errors.New("expected a name, and no address")
	}
	if rest, ok := strings.CutPrefix(name, "*."); ok {
		if a.DNS == nil {
			return errors.New("a wildcard needs another challenge, dns-01, and so the key dns; expected " +
				"the names one by one")
		}
		name = rest
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

// base is where the files of an entry of Domains are, without their endings. No other entry has its
// first name.
func (a *ACME) base(entry string) string {
	first, _, _ := strings.Cut(entry, " ")
	return filepath.Join(a.Folder, strings.Replace(first, "*", "_", 1))
}

// file is where the certificate of an entry of Domains is, with its key.
func (a *ACME) file(entry string) string { return a.base(entry) + ".pem" }

func (a *ACME) read(entry string) (tls.Certificate, error) {
	return confpath.KeyPair(a.file(entry), a.file(entry), "")
}

// pairs are those of entries of Domains: what has been obtained so far, and what has not.
func (a *ACME) pairs(r *Reader, entries []string, now time.Time, position string) (all []pair) {
	for _, entry := range entries {
		p := pair{cert: a.file(entry), key: a.file(entry), domain: entry, position: position}
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
