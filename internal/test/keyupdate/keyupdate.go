// Package keyupdate makes a record that crypto/tls does not let a program send: a KeyUpdate.
package keyupdate

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// First is the KeyUpdate of an end of a connection, "CLIENT" or "SERVER", as its first record
// behind the handshake, with TLS_AES_128_GCM_SHA256 (RFC 8446 sections 4.6.3, 5.2 and 7.1). With
// ask it asks the other end for new keys, too. secrets are what tls.Config.KeyLogWriter got.
func First(t testing.TB, secrets, end string, ask bool) []byte {
	t.Helper()
	_, rest, _ := strings.Cut(secrets, end+"_TRAFFIC_SECRET_0 ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		t.Fatalf("no secret of the %s in %q", end, secrets)
	}
	secret := must.Get(hex.DecodeString(fields[1]))(t)
	expand := func(label string, n int) []byte {
		label = "tls13 " + label
		info := string([]byte{0, byte(n), byte(len(label))}) + label + "\x00"
		out := must.Get(hkdf.Expand(sha256.New, secret, info, n))(t)
		return out
	}
	block := must.Get(aes.NewCipher(expand("key", 16)))(t)
	aead := must.Get(cipher.NewGCM(block))(t)
	message := []byte{24, 0, 0, 1, 0, 22} // key_update, its length, what it asks for; handshake
	if ask {
		message[4] = 1
	}
	head := []byte{23, 3, 3, 0, byte(len(message) + aead.Overhead())}
	return aead.Seal(head, expand("iv", 12), message, head)
}
