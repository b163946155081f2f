package crl_test

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/tls/crl"
)

// file writes a file of lists.
func file(t *testing.T, lists ...[]byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "crl.pem")
	must.Do(t, os.WriteFile(path, bytes.Join(lists, nil), 0o600))
	return path
}

// TestVerify: of a chain each certificate needs a list of its issuer that does not have it, and
// whose time is not over.
func TestVerify(t *testing.T) {
	t.Parallel()
	now := time.Now()
	until := now.Add(time.Hour)
	root := certs.New(t)
	below := root.Below("below")
	good, bad := certs.Leaf(below.Issue(time.Hour, "a")), certs.Leaf(below.Issue(time.Hour, "b"))
	direct := certs.Leaf(root.Issue(time.Hour, "c"))
	chain := func(c ...*x509.Certificate) []*x509.Certificate { return append(c, root.Cert()) }
	whole := [][]byte{root.List(until, nil), below.List(until, nil, bad)}
	third := below.Below("third")
	low := certs.Leaf(third.Issue(time.Hour, "d"))
	known := []*x509.Certificate{root.Cert(), below.Cert(), third.Cert(), bad}
	revoked := [][]byte{root.List(until, nil, below.Cert()), below.List(until, nil, bad),
		third.List(until, nil)}
	type chains = [][]*x509.Certificate
	for name, tt := range map[string]struct {
		lists  [][]byte
		chains chains
		at     time.Time
		err    string
		known  []*x509.Certificate
	}{
		"good": {whole, chains{chain(good, below.Cert())}, now, "", nil},
		"revoked": {whole, chains{chain(bad, below.Cert())}, now,
			"the certificate of CN=b, number ", nil},
		"no chain":      {whole, nil, now, "", nil},
		"trusted alone": {whole, chains{{good}}, now, "", nil},
		"no list": {whole[:1], chains{chain(good, below.Cert())}, now,
			"no revocation list of CN=below", nil},
		"none above": {whole[1:], chains{chain(good, below.Cert())}, now,
			"no revocation list of CN=test authority", nil},
		"above revoked": {[][]byte{root.List(until, nil, below.Cert()), whole[1]},
			chains{chain(good, below.Cert())}, now, "the certificate of CN=below, number ", nil},
		"over": {whole, chains{chain(good, below.Cert())}, until.Add(time.Second),
			"the revocation list of CN=below has expired", nil},
		"another chain": {whole, chains{chain(bad, below.Cert()), chain(direct)}, now, "", nil},
		"newest": {[][]byte{root.List(until, nil, direct), root.List(until, func(l *x509.RevocationList) {
			l.ThisUpdate = now.Add(-time.Minute)
		})},
			chains{chain(direct)}, now, "", nil},
		"another key": {[][]byte{certs.New(t).List(until, nil)}, chains{chain(direct)}, now,
			"no revocation list of CN=test authority", nil},
		// A chain ends at the first certificate that is trusted.
		"trusted below":          {whole, chains{{good, below.Cert()}}, now, "", known},
		"trusted below, no list": {whole[1:], chains{{good, below.Cert()}}, now, "", known},
		"trusted below, revoked": {revoked, chains{{good, below.Cert()}}, now,
			"the certificate of CN=below, number ", known},
		"trusted below a revoked one": {revoked, chains{{low, third.Cert()}}, now,
			"the certificate of CN=below, number ", known},
		"trusted itself, revoked": {whole, chains{{bad}}, now, "the certificate of CN=b, number ", known},
	} {
		f := must.Get(crl.Open(file(t, tt.lists...), tt.known, now))(t)
		have := ""
		if err := f.Verify(tt.chains, tt.at); err != nil {
			have = err.Error()
		}
		if !strings.HasPrefix(have, tt.err) || (have == "") != (tt.err == "") {
			t.Errorf("%s: %s, want %s", name, have, tt.err)
		}
	}
}

// TestOpen: a list that cannot be used is an error.
func TestOpen(t *testing.T) {
	t.Parallel()
	now := time.Now()
	until := now.Add(time.Hour)
	root := certs.New(t)
	known := []*x509.Certificate{root.Cert()}
	critical := pkix.Extension{Id: []int{2, 5, 29, 28}, Critical: true, Value: []byte{0x30, 0}}
	good := root.List(until, nil)
	block, _ := pem.Decode(good)
	// One whose issuer has the name and key number of root, and is another.
	other := certs.New(t)
	forged := other.List(until, func(l *x509.RevocationList) {})
	for name, tt := range map[string]struct{ text, err string }{
		"PEM":   {string(good), ""},
		"DER":   {string(block.Bytes), ""},
		"two":   {string(good) + "x\n" + string(good), ""},
		"empty": {"", "list 1: "},
		"text":  {"no list", "list 1: "},
		"others": {string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Cert().Raw})),
			"has no X509 CRL in PEM"},
		"cut": {string(good) + string(good[:len(good)/2]), "one of 2 lists is no PEM"},
		"garbled": {
			string(pem.EncodeToMemory(
				&pem.Block{Type: "X509 CRL", Bytes: block.Bytes[:len(block.Bytes)-1]})), "list 1: "},
		"over": {string(root.List(now.Add(-time.Minute), nil)),
			"list 1: that of CN=test authority has expired on"},
		"too soon": {string(root.List(until, func(l *x509.RevocationList) {
			l.ThisUpdate = now.Add(time.Minute)
		})), "list 1: that of CN=test authority is not valid before"},
		"partial": {string(root.List(until, func(l *x509.RevocationList) {
			l.ExtraExtensions = []pkix.Extension{critical}
		})), "has a critical extension 2.5.29.28, which is not known"},
		"indirect": {string(root.List(until, func(l *x509.RevocationList) {
			for i := range l.RevokedCertificateEntries {
				l.RevokedCertificateEntries[i].ExtraExtensions = []pkix.Extension{
					{Id: []int{2, 5, 29, 29}, Critical: true, Value: []byte{0x30, 0}}}
			}
		}, root.Cert())), "has a critical extension 2.5.29.29, which is not known"},
		"version 1": {string(
			pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: version1(t, block.Bytes)})),
			"list 1: it is a list of version 1, expected version 2: `openssl ca -gencrl` makes one where"},
		"unsigned": {string(tamper(block.Bytes)),
			"list 1: the signature is not that of CN=test authority"},
		"unknown": {string(forged), ""}, // of another key: it may be of an authority that clients send
	} {
		_, err := crl.Open(file(t, []byte(tt.text)), known, now)
		have := ""
		if err != nil {
			have = err.Error()
		}
		if !strings.Contains(have, tt.err) || (have == "") != (tt.err == "") {
			t.Errorf("%s: %s, want %s", name, have, tt.err)
		}
	}
	if _, err := crl.Open("/nowhere", nil, now); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// version1 returns a list without its version and its extensions, as openssl makes it by default.
func version1(t *testing.T, der []byte) []byte {
	var l pkix.CertificateList
	must.Get(asn1.Unmarshal(der, &l))(t)
	l.TBSCertList.Raw, l.TBSCertList.Version, l.TBSCertList.Extensions = nil, 0, nil
	return must.Get(asn1.Marshal(l))(t)
}

// tamper changes the last byte of the signature.
func tamper(der []byte) []byte {
	der = bytes.Clone(der)
	der[len(der)-1] ^= 1
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// TestRenew: a file that has changed is read again, and one that is of no use leaves the old lists.
func TestRenew(t *testing.T) {
	t.Parallel()
	now := time.Now()
	root := certs.New(t)
	c := certs.Leaf(root.Issue(time.Hour, "c"))
	chains := [][]*x509.Certificate{{c, root.Cert()}}
	path := file(t, root.List(now.Add(time.Hour), nil))
	text := new(logtext.Buffer)
	log := slog.New(slog.NewTextHandler(text, nil))
	f := must.Get(crl.Open(path, []*x509.Certificate{root.Cert()}, now))(t)
	put := func(b []byte) {
		must.Do(t, os.WriteFile(path+".new", b, 0o600))
		must.Do(t, os.Rename(path+".new", path))
	}
	if renewed(f, now, log) != "" || f.Verify(chains, now) != nil || text.String() != "" {
		t.Error("the file has not changed: ", text)
	}
	put([]byte("none"))
	for range 2 {
		if renewed(f, now, log) != "" || f.Verify(chains, now) != nil {
			t.Error("what is no list has an effect")
		}
	}
	if n := strings.Count(text.String(), "the old ones stay"); n != 1 {
		t.Error(n, " lines: ", text)
	}
	put(root.List(now.Add(2*time.Hour), nil, c))
	if renewed(f, now, log) != "stricter" || f.Verify(chains, now) == nil {
		t.Error("the new list has no effect")
	}
	for range 2 {
		f.Renew(now.Add(3*time.Hour), log)
	}
	if n := strings.Count(text.String(), "has expired"); n != 1 {
		t.Error(n, " lines: ", text)
	}
}
