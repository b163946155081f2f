package confpath

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"syscall"
)

// MaxFile bounds a file that a configuration names, in bytes: more is a mistake.
const MaxFile = 16 << 20

// Read returns what is in a regular file of at most so many bytes. Anything else is an error: a pipe
// could hold up the reader for ever.
func Read(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // open(2) waits for a pipe's writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s: longer than %d KiB", path, most>>10)
	}
	return text, err
}

// KeyPair reads a certificate with its chain, and its private key, from PEM files, which may be the
// same.
func KeyPair(cert, key string) (tls.Certificate, error) {
	certs, err := Read(cert, MaxFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := Read(key, MaxFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certs, private)
}
