package acme

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net/http"
)

// key is a public key on the curve P-256, as a JSON Web Key (RFC 7518 section 6.2).
type key struct {
	Kty string `json:"kty"`
	Crv string `json:"crv"`
	X   string `json:"x"`
	Y   string `json:"y"`
}

// thumbprint is that of RFC 7638.
func (k key) thumbprint() string {
	sum := sha256.Sum256([]byte(`{"crv":"` + k.Crv + `","kty":"` + k.Kty + `","x":"` + k.X +
		`","y":"` + k.Y + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// public returns the key, if it is one.
func (k key) public() (*ecdsa.PublicKey, error) {
	x, err := base64.RawURLEncoding.DecodeString(k.X)
	y, err2 := base64.RawURLEncoding.DecodeString(k.Y)
	if err = errors.Join(err, err2); err != nil {
		return nil, err
	}
	if k.Kty != "EC" || k.Crv != "P-256" || len(x) != 32 || len(y) != 32 {
		return nil, errors.New("expected a key on the curve P-256")
	}
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
}

// request is a signed request.
type request struct {
	header  http.Header // of the answer
	account string      // its URL
	key     key
	payload []byte // empty where the client only asks (POST-as-GET)
	wanted  struct {
		Identifiers []struct{ Type, Value string }
		Replaces    string
	}
	order     *order
	id        int // of the order
	names     []string
	authz     *authz
	name      string // that it is for; the first one of an order
	challenge string
}

// signed is a signed text (RFC 7515 section 7.2.2).
type signed struct{ Protected, Payload, Signature string }

func (r *request) decode(into any) *Problem {
	if err := json.Unmarshal(r.payload, into); err != nil {
		return problem(http.StatusBadRequest, "malformed", err.Error())
	}
	return nil
}

// verifySignature reads a request. A new account shows its key, and all others are known.
func (s *Server) verifySignature(r *http.Request, isNew bool) (*request, *Problem) {
	malformed := func(what string) (*request, *Problem) {
		return nil, problem(http.StatusBadRequest, "malformed", what)
	}
	if r.Header.Get("Content-Type") != "application/jose+json" {
		return malformed("expected application/jose+json")
	}
	var body signed
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	var protected, payload, signature []byte
	for from, to := range map[*string]*[]byte{&body.Protected: &protected, &body.Payload: &payload,
		&body.Signature: &signature} {
		if err == nil {
			*to, err = base64.RawURLEncoding.DecodeString(*from)
		}
	}
	var head struct {
		Alg, Nonce, URL, KID string
		JWK                  *key
	}
	if err == nil {
		err = json.Unmarshal(protected, &head)
	}
	if err != nil {
		return malformed(err.Error())
	}
	if head.Alg != "ES256" {
		return nil, problem(http.StatusBadRequest, "badSignatureAlgorithm", "expected ES256")
	}
	if head.URL != s.server.URL+r.URL.Path {
		return nil, problem(http.StatusUnauthorized, "unauthorized", "signed for "+head.URL)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	good := s.nonces[head.Nonce] && s.badNonces == 0
	delete(s.nonces, head.Nonce)
	s.badNonces = max(s.badNonces-1, 0)
	if !good {
		return nil, problem(http.StatusBadRequest, "badNonce", "the nonce is none, or was used")
	}
	out := &request{account: head.KID, payload: payload}
	switch known := s.accounts[head.KID]; {
	case (head.JWK != nil) != isNew || (head.KID == "") != isNew:
		return malformed("expected jwk for a new account, and else kid")
	case isNew:
		out.key = *head.JWK
	case known == nil:
		return nil, problem(http.StatusBadRequest, "accountDoesNotExist", "there is no such account")
	default:
		out.key = known.key
	}
	public, err := out.key.public()
	if err != nil {
		return nil, problem(http.StatusBadRequest, "badPublicKey", err.Error())
	}
	sum := sha256.Sum256([]byte(body.Protected + "." + body.Payload))
	if len(signature) != 64 || !ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(signature[:32]),
		new(big.Int).SetBytes(signature[32:])) {
		return malformed("the signature is wrong")
	}
	return out, nil
}

// BindAccounts lets only clients have an account that know the key of an external one (RFC 8555
// section 7.3.4).
func (s *Server) BindAccounts(kid string, key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = map[string][]byte{kid: key}
}

// bound verifies an external account binding.
func (s *Server) bound(b *signed, account key) *Problem {
	if s.keys == nil {
		return nil
	}
	if b == nil {
		return problem(http.StatusForbidden, "externalAccountRequired", "bind the account")
	}
	var head struct{ Alg, KID, URL string }
	var inner key
	for from, to := range map[string]any{b.Protected: &head, b.Payload: &inner} {
		text, err := base64.RawURLEncoding.DecodeString(from)
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil {
			return problem(http.StatusBadRequest, "malformed", err.Error())
		}
	}
	mac := hmac.New(sha256.New, s.keys[head.KID])
	mac.Write([]byte(b.Protected + "." + b.Payload))
	signature, _ := base64.RawURLEncoding.DecodeString(b.Signature)
	if s.keys[head.KID] == nil || head.Alg != "HS256" || head.URL != s.server.URL+"/newAccount" ||
		inner != account || !hmac.Equal(signature, mac.Sum(nil)) {
		return problem(http.StatusUnauthorized, "unauthorized", "the binding is wrong")
	}
	return nil
}

func random() string { return rand.Text() }
