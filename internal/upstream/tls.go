package upstream

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/tls/crl"
	"github.com/lwango/lwango/internal/tls/handshake"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TLS has a route's settings of TLS for upstreams whose addresses begin with "https://". The fields
// are those of TLS in handlers/upstreams, which are keys of the configuration.
type TLS struct {
	CA, Name, Cert, Key, KeyPassword, CRL string
	Insecure                              bool
}

// Security is a TLS that was loaded.
type Security struct {
	config    *tls.Config
	id        string // the same for two that are alike
	byRequest bool   // a Lease has the name

	files *files // read again when they change; nil: none
}

// Load reads the files. path makes the paths of the settings absolute. With byRequest, Name is a
// text with placeholders, and each request has a Lease.ServerName. Load may wait for a disk.
func (t *TLS) Load(path func(string) string, byRequest bool) (*Security, error) {
	s := &Security{config: &tls.Config{ServerName: t.Name, InsecureSkipVerify: t.Insecure},
		byRequest: byRequest}
	if byRequest {
		s.config.ServerName = ""
	}
	var known []*x509.Certificate
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %t\n", t.Name, t.Insecure)
	switch {
	case !byRequest && t.Name != "" && !ValidName(t.Name):
		return nil, fmt.Errorf("name: expected a name that certificates have, without a port, not %q",
			t.Name)
	case t.CA != "" && t.Insecure:
		return nil, errors.New("ca is of no use with insecure = true")
	case t.CA != "":
		pem, err := confpath.Read(path(t.CA), confpath.MaxFile)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		s.config.RootCAs = x509.NewCertPool()
		if !s.config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca: no certificate in %s", t.CA)
		}
		fmt.Fprintf(sum, "ca %d\n%s", len(pem), pem)
		known = crl.Certificates(pem)
	}
	if t.CRL != "" {
		if t.Insecure {
			return nil, errors.New("crl is of no use with insecure = true")
		}
		lists, err := crl.Open(path(t.CRL), known, time.Now())
		if err != nil {
			return nil, fmt.Errorf("crl: %w", err)
		}
		s.files = &files{lists: lists}
		fmt.Fprintf(sum, "crl %q\n", lists.Path())
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("expected both cert and key, paths of PEM files")
	}
	if t.KeyPassword != "" && t.Key == "" {
		return nil, errors.New("key_password is for a key")
	}
	if t.Cert != "" {
		if s.files == nil {
			s.files = new(files)
		}
		s.files.cert, s.files.key, s.files.password = path(t.Cert), path(t.Key), t.KeyPassword
		if err := s.files.read(); err != nil {
			return nil, err
		}
		fmt.Fprintf(sum, "cert %q %q\n", s.files.cert, s.files.key)
	}
	s.id = hex.EncodeToString(sum.Sum(nil))
	return s, nil
}

// ValidName reports whether a certificate can have the name: that of a host, as DNS has it (RFC
// 1035 section 2.3.4), or an IP address.
func ValidName(name string) bool {
	if net.ParseIP(name) != nil {
		return true
	}
	name = strings.TrimSuffix(name, ".")
	if len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, notInLabel) {
			return false
		}
	}
	return true
}

func notInLabel(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// SecurityOf is for a Pool all of whose groups have this configuration; nil: the default one.
func SecurityOf(c *tls.Config) *Security {
	if c == nil {
		return &Security{config: new(tls.Config)}
	}
	c = c.Clone()
	c.ServerName = ""
	return &Security{config: c}
}

// LoadRoots reads the authorities of the system once, so that no loop has to wait for the disk in
// its first handshake.
func LoadRoots() { _, _ = x509.SystemCertPool() }

// of returns the configuration for a backend at host. Sessions are resumed only at the backend that
// has issued them, and by routes that verify it in the same way.
func (s *Security) of(host string) (*tls.Config, error) {
	c := s.config.Clone()
	if c.ServerName == "" {
		c.ServerName = host
	}
	switch {
	case c.InsecureSkipVerify, s.byRequest:
	case c.ServerName == "":
		return nil, errors.New("expected tls = { name = ... }: what a certificate of the socket names")
	}
	if c.RootCAs == nil && !c.InsecureSkipVerify {
		LoadRoots()
	}
	c.ClientSessionCache = tls.NewLRUClientSessionCache(maxTLSSessions)
	if s.byRequest {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(maxAffine)
	}
	if f := s.files; f != nil && f.lists != nil {
		c.VerifyConnection = f.lists.VerifyConnection
	}
	if f := s.files; f != nil && f.cert != "" {
		c.GetClientCertificate = f.certificate
	}
	return c, nil
}

// needsServerName reports that a backend without a host can be verified only by the name of a
// request.
func (s *Security) needsServerName() bool { return s.byRequest && !s.config.InsecureSkipVerify }

// maxTLSSessions is how many sessions are kept for a backend. A ticket of TLS 1.3 is for one use,
// and later ones replace earlier ones, which crypto/tls keeps by the name of the server.
const maxTLSSessions = 4

// loopConn is the net.Conn below a *tls.Conn: the stream of the loop that has the connection. A
// connection that another loop takes gets another stream.
type loopConn struct{ net.Conn }

// errTruncated is the error of a read after a FIN without close_notify.
var errTruncated = fmt.Errorf("the upstream has closed the connection without close_notify: %w",
	io.ErrUnexpectedEOF)

// Read implements net.Conn. crypto/tls returns io.EOF both for close_notify, which the upstream has
// authenticated, and for a FIN, which anybody on the way can send. So the FIN gets an error of its
// own: an answer that ends with its connection is complete only after close_notify (RFC 9112
// section 9.8).
func (c *loopConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF {
		err = errTruncated
	}
	return n, err
}

// SetWriteDeadline does nothing. crypto/tls makes the deadline expire once it has sent its last
// record, which a Duplex may still hold.
func (*loopConn) SetWriteDeadline(time.Time) error { return nil }

// handshake makes the TLS handshake on s, until the given time, for a name; "": that of the
// configuration. It computes off the loop, in the client's turn. It returns the version of the
// files that it has used, or an earlier one.
func (srv *server) handshake(
	t *loop.Thread, s *stream.Conn, until time.Time, name string,
) (*tls.Conn, int64, error) {
	config, version := srv.security.at(srv.tls)
	if name != "" {
		config = config.Clone()
		config.ServerName = name
	}
	below := new(loopConn)
	c := tls.Client(below, config)
	_ = s.SetDeadline(until)
	if _, err := handshake.Dial(t, t.Layer().Client(), c, &below.Conn, s, until); err != nil {
		return nil, 0, fmt.Errorf("tls handshake: %w", err)
	}
	_ = s.SetDeadline(time.Time{})
	below.Conn = s
	return c, version, nil
}

// sendCloseNotify sends close_notify before the connection is closed, as a client must (RFC 9112
// section 9.8). It does not wait. Any goroutine that alone has the descriptor may call it.
func sendCloseNotify(c *tls.Conn, fd int) {
	if c != nil {
		c.NetConn().(*loopConn).Conn = sysio.SendOnly{FD: fd}
		_ = c.CloseWrite()
	}
}
