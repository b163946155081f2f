package confpath

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/youmark/pkcs8"
)

// KeyPair reads a certificate with its chain, and its private key, from PEM files, which may be the
// same. password decrypts a key that is encrypted, by PKCS #8 (RFC 5958) or in the way of OpenSSL
// before 1.0 (RFC 1421); "": there is none.
func KeyPair(cert, key, password string) (tls.Certificate, error) {
	certs, err := Read(cert, MaxFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := Read(key, MaxFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	if private, err = decrypt(private, password); err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", key, err)
	}
	return tls.X509KeyPair(certs, private)
}

var (
	errNoPassword = errors.New("the key is encrypted: expected key_password beside it")
	errPassword   = errors.New("key_password does not decrypt the key")
	errNoKey      = errors.New("no key there is encrypted: key_password is of no use")
)

// decrypt returns the PEM blocks of text with their keys decrypted.
func decrypt(text []byte, password string) ([]byte, error) {
	var out bytes.Buffer
	found := false
	for rest := text; ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			break
		}
		//lint:ignore SA1019 keys in this format are around, and nobody but the operator writes them
		old := strings.HasSuffix(b.Type, "PRIVATE KEY") && x509.IsEncryptedPEMBlock(b)
		if old || b.Type == "ENCRYPTED PRIVATE KEY" {
			found = true
			if password == "" {
				return nil, errNoPassword
			}
			var err error
			if b, err = decryptBlock(b, old, []byte(password)); err != nil {
				return nil, err
			}
		}
		if err := pem.Encode(&out, b); err != nil {
			return nil, err
		}
	}
	switch {
	case found:
		return out.Bytes(), nil
	case password != "":
		return nil, errNoKey
	}
	return text, nil
}

func decryptBlock(b *pem.Block, old bool, password []byte) (*pem.Block, error) {
	if old {
		//lint:ignore SA1019 see decrypt
		der, err := x509.DecryptPEMBlock(b, password)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errPassword, err)
		}
		return &pem.Block{Type: b.Type, Bytes: der}, nil
	}
	key, err := pkcs8.ParsePKCS8PrivateKey(b.Bytes, password)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPassword, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &pem.Block{Type: "PRIVATE KEY", Bytes: der}, nil
}
