package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/lwango/lwango/pubsub/internal/engine"
)

// tlsFiles is how connections are secured. The files are read for each connection, so a certificate
// that is renewed needs no restart.
type tlsFiles struct {
	ca, cert, key string // files
	name          string // that the certificate has to have; empty: the host that is dialed
	skipVerify    bool
}

// takeTLS takes the parameters that begin with tls_ from a URL. A server is known by the host of
// the URL, unless tls_name says otherwise. Where there are several, each is known by its own host.
func takeTLS(take func(key string) string, on bool, host string, several bool) (*tlsFiles, error) {
	s := &tlsFiles{ca: take("tls_ca"), cert: take("tls_cert"), key: take("tls_key"),
		name: take("tls_name")}
	if !on {
		if *s != (tlsFiles{}) {
			return nil, errors.New("tls_ca, tls_cert, tls_key and tls_name are for rediss://")
		}
		return nil, nil
	}
	for _, path := range []string{s.ca, s.cert, s.key} {
		if path != "" && !filepath.IsAbs(path) {
			return nil, errors.New("tls_ca, tls_cert and tls_key are absolute paths")
		}
	}
	if (s.cert == "") != (s.key == "") {
		return nil, errors.New("tls_cert and tls_key go together")
	}
	if s.name == "" && !several {
		s.name = host
	}
	_, err := s.config()
	return s, err
}

// config reads the files.
func (s *tlsFiles) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.name,
		InsecureSkipVerify: s.skipVerify}
	if s.ca != "" {
		pem, err := os.ReadFile(s.ca)
		if err != nil {
			return nil, fmt.Errorf("tls_ca: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("tls_ca: no certificate in the file")
		}
	}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, fmt.Errorf("tls_cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func (s *tlsFiles) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := s.config()
	if err != nil {
		return nil, err
	}
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: engine.AnswerTimeout}, Config: c}
	return d.DialContext(ctx, network, addr)
}
