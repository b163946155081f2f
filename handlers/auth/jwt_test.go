package auth_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/auth"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

var b64 = base64.RawURLEncoding.EncodeToString

// jwkSet makes the text of a JWK Set.
func jwkSet(t *testing.T, keys ...map[string]string) []byte {
	t.Helper()
	return must.Get(json.Marshal(map[string]any{"keys": keys}))(t)
}

// token signs a token; claims replace the usual ones, and nil takes one away.
func token(t *testing.T, method jwt.SigningMethod, key any, kid string,
	claims jwt.MapClaims) string {
	t.Helper()
	all := jwt.MapClaims{"iss": "https://id.test", "aud": "app", "sub": "ann",
		"exp": time.Now().Add(time.Hour).Unix(), "email": "ann@a.test", "groups": []string{"a", "b"}}
	maps.Copy(all, claims)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	tok := jwt.NewWithClaims(method, all)
	if kid != "" {
		tok.Header["kid"] = kid
	}
	return must.Get(tok.SignedString(key))(t)
}

// critical signs a token with an extension that nobody understands.
func critical(t *testing.T, key any) string {
	t.Helper()
	tok := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"iss": "https://id.test",
		"aud": "app", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix()})
	tok.Header["kid"], tok.Header["crit"], tok.Header["x"] = "e", []string{"x"}, 1
	return must.Get(tok.SignedString(key))(t)
}

// tokens serves a handler that tells the user and the field of a claim.
func tokens(t *testing.T, set auth.JWT) *server.Server {
	t.Helper()
	set.Issuer, set.Audience = "https://id.test", []string{"app", "other"}
	set.CopyClaims = map[string]string{"X-Email": "email", "X-Groups": "groups"}
	m := must.Get(auth.New(auth.Settings{JWT: &set}, handlers.Env{}))(t)
	return module.Start(t, modes.Plain, "/", m(func(req *conn.Request, resp *conn.Response) int {
		h := req.Header()
		fmt.Fprint(resp, req.User(), " ", h.Get("X-Email"), " ", h.Get("X-Groups"))
		return 200
	}))
}

func TestJWT(t *testing.T) {
	rsaKey := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	ecKey := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	must.Do(t, err)
	secret := []byte("0123456789abcdef0123456789abcdef")
	longer := []byte("0123456789abcdef0123456789abcdefg") // whole in base64
	point := must.Get(ecKey.PublicKey.Bytes())(t)
	path := filepath.Join(t.TempDir(), "keys.json")
	must.Do(t, os.WriteFile(path, jwkSet(t,
		map[string]string{"kty": "RSA", "kid": "r", "n": b64(rsaKey.N.Bytes()), "e": "AQAB"},
		map[string]string{"kty": "EC", "kid": "e", "crv": "P-256", "x": b64(point[1:33]),
			"y": b64(point[33:])},
		map[string]string{"kty": "OKP", "kid": "o", "crv": "Ed25519", "x": b64(edPublic)},
		map[string]string{"kty": "oct", "kid": "s", "alg": "HS256", "k": b64(secret)},
		map[string]string{"kty": "RSA", "kid": "weak", "n": b64(rsaKey.N.Bytes()[:64]), "e": "AQAB"},
		map[string]string{"kty": "oct", "kid": "part", "k": b64(longer) + "+AAA"},
		map[string]string{"kty": "new"},
	), 0o600))
	s := tokens(t, auth.JWT{Keys: path, Cookie: "token"})
	es := func(claims jwt.MapClaims) string {
		return token(t, jwt.SigningMethodES256, ecKey, "e", claims)
	}
	ago := time.Now().Add(-time.Hour).Unix()
	const ann = "200 ann ann@a.test a,b"
	good := es(nil)
	for name, test := range map[string]struct{ token, want string }{
		"RS256":                {token(t, jwt.SigningMethodRS256, rsaKey, "r", nil), ann},
		"PS512":                {token(t, jwt.SigningMethodPS512, rsaKey, "r", nil), ann},
		"ES256":                {good, ann},
		"EdDSA":                {token(t, jwt.SigningMethodEdDSA, edKey, "o", nil), ann},
		"HS256":                {token(t, jwt.SigningMethodHS256, secret, "s", nil), ann},
		"no kid":               {token(t, jwt.SigningMethodES256, ecKey, "", nil), ann},
		"a part of a secret":   {token(t, jwt.SigningMethodHS256, longer, "part", nil), "401"},
		"a critical extension": {critical(t, ecKey), "401"},
		"numbers": {es(jwt.MapClaims{"email": 9007199254740993, "groups": []any{12345678901, true}}),
			"200 ann 9007199254740993 12345678901,true"},
		"another alg":     {token(t, jwt.SigningMethodHS512, secret, "s", nil), "401"},
		"a public secret": {token(t, jwt.SigningMethodHS256, rsaKey.N.Bytes(), "r", nil), "401"},
		"none": {token(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "e", nil),
			"401"},
		"unknown kid": {token(t, jwt.SigningMethodES256, ecKey, "x", nil), "401"},
		"expired":     {es(jwt.MapClaims{"exp": ago}), "401"},
		"leeway": {es(jwt.MapClaims{"exp": time.Now().Add(-10 * time.Second).Unix()}),
			ann},
		"no exp":                {es(jwt.MapClaims{"exp": nil}), "401"},
		"not yet":               {es(jwt.MapClaims{"nbf": time.Now().Add(time.Hour).Unix()}), "401"},
		"another issuer":        {es(jwt.MapClaims{"iss": "https://evil.test"}), "401"},
		"no issuer":             {es(jwt.MapClaims{"iss": nil}), "401"},
		"another audience":      {es(jwt.MapClaims{"aud": "x"}), "401"},
		"no audience":           {es(jwt.MapClaims{"aud": nil}), "401"},
		"two audiences":         {es(jwt.MapClaims{"aud": []string{"x", "other"}}), ann},
		"no user":               {es(jwt.MapClaims{"sub": nil}), "401"},
		"a user behind a space": {es(jwt.MapClaims{"sub": " ann"}), "401"},
		"a user with a tab":     {es(jwt.MapClaims{"sub": "a\tb"}), "401"},
		"a claim and a space":   {es(jwt.MapClaims{"email": "ann@a.test "}), "200 ann  a,b"},
		"a list with a space": {es(jwt.MapClaims{"groups": []string{"a", " b"}}),
			"200 ann ann@a.test "},
		"a user in lines":  {es(jwt.MapClaims{"sub": "a\r\nX: y"}), "401"},
		"a claim in lines": {es(jwt.MapClaims{"email": "a\r\nX: y"}), "200 ann  a,b"},
		"a long number":    {es(jwt.MapClaims{"email": 1234567890}), "200 ann 1234567890 a,b"},
		"changed":          {strings.Replace(good, ".e", ".f", 1), "401"},
		"no signature":     {good[:strings.LastIndex(good, ".")+1], "401"},
		"long":             {good + strings.Repeat("a", 9<<10), "401"},
		"no token":         {"x", "401"},
	} {
		for _, field := range []string{"Authorization: Bearer ", "authorization: bearer ",
			"Cookie: a=b; token="} {
			a := s.Request("GET /", []string{field + test.token, "X-Email: forged"}, "")
			got := fmt.Sprint(a.StatusCode)
			if a.StatusCode == 200 {
				got += " " + a.Text
			}
			challenge := a.Header.Get("WWW-Authenticate")
			if got != test.want ||
				(got == "401") != strings.HasPrefix(challenge, `Bearer realm="restricted"`) {
				t.Errorf("%s, %s: got %s, %q, want %s", name, field, got, challenge, test.want)
			}
		}
	}
	for fields, want := range map[string]int{"": 401, "Authorization: Basic YTpi": 401,
		"Connection: X-Email\r\nAuthorization: Bearer " + good:              400,
		"Authorization: Bearer " + good:                                     200,
		"Authorization: Bearer " + good + "\r\nAuthorization: Bearer x.y.z": 401} {
		var list []string
		if fields != "" {
			list = strings.Split(fields, "\r\n")
		}
		if got := s.Request("GET /", list, "").StatusCode; got != want {
			t.Errorf("%q: %d, want %d", fields, got, want)
		}
	}
}

// TestJWTKeysByURL: keys are fetched when a token names one that is not known; what is wrong there
// leaves the last good ones.
func TestJWTKeysByURL(t *testing.T) {
	keys := make([]*ecdsa.PrivateKey, 2)
	sets := make([][]byte, 2)
	for i := range keys {
		keys[i] = must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		point := must.Get(keys[i].PublicKey.Bytes())(t)
		sets[i] = jwkSet(t, map[string]string{"kty": "EC", "kid": fmt.Sprint(i), "crv": "P-256",
			"x": b64(point[1:33]), "y": b64(point[33:])})
	}
	var answer atomic.Pointer[[]byte]
	answer.Store(&sets[0])
	var asked atomic.Int32
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(*answer.Load())
	}))
	t.Cleanup(origin.Close)
	s := tokens(t, auth.JWT{Keys: origin.URL})
	ask := func(i int) int {
		field := "Authorization: Bearer " + token(t, jwt.SigningMethodES256, keys[i], fmt.Sprint(i), nil)
		return s.Request("GET /", []string{field}, "").StatusCode
	}
	if got := ask(0); got != 200 {
		t.Errorf("the first: %d", got)
	}
	for range 3 { // a client with tokens of unknown keys asks for no more than one reading
		if got := ask(1); got != 401 {
			t.Errorf("of an unknown key: %d", got)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	auth.RenewAlways(t)
	s = tokens(t, auth.JWT{Keys: origin.URL})
	if got := ask(0); got != 200 {
		t.Errorf("of another server: %d", got)
	}
	for name, text := range map[string]string{"huge": `{"keys":[` + strings.Repeat(" ", 2<<20) + "]}",
		"malformed": "{", "empty": `{"keys":[]}`, "secrets": `{"keys":[{"kty":"oct","k":"` +
			strings.Repeat("A", 43) + `"}]}`} {
		wrong := []byte(text)
		answer.Store(&wrong)
		if a, b := ask(1), ask(0); a != 401 || b != 200 {
			t.Errorf("%s: %d and %d", name, a, b)
		}
	}
	answer.Store(&sets[1])
	if a, b := ask(1), ask(0); a != 200 || b != 401 {
		t.Errorf("rotated: %d and %d", a, b)
	}
	// A configuration that takes the place of another one has its keys, also if the provider is away.
	origin.Close()
	before := s
	s = tokens(t, auth.JWT{Keys: origin.URL})
	if got := ask(1); got != 200 {
		t.Errorf("after a reload without the provider: %d", got)
	}
	runtime.KeepAlive(before)
}

func TestJWTErrors(t *testing.T) {
	full := auth.JWT{Keys: "http://192.0.2.1/keys", Issuer: "i", Audience: []string{"a"}}
	with := func(change func(*auth.JWT)) auth.JWT { j := full; change(&j); return j }
	for _, test := range []struct {
		set  auth.JWT
		want string
	}{
		{auth.JWT{}, "jwt: issuer: missing; expected what the claim iss must be"},
		{with(func(j *auth.JWT) { j.Audience = nil }),
			"jwt: audience: missing; expected a value of the claim aud, such as that of this server"},
		{full, "jwt: keys: http://192.0.2.1/keys: expected an https URL: who is on the way could name " +
			"other keys"},
		{with(func(j *auth.JWT) { j.Keys = "" }),
			"jwt: keys: missing; expected a file with a JWK Set, or its https URL"},
		{with(func(j *auth.JWT) { j.CopyClaims = map[string]string{"Host": "x"} }), "jwt: copy_claims: "},
	} {
		_, err := auth.New(auth.Settings{JWT: &test.set}, handlers.Env{})
		if err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
}
