package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/wire/http1"
)

// JWT are the keys of `jwt`: requests pass with a JSON Web Token (RFC 7519) that one of some keys
// has signed.
type JWT struct {
	// Keys is a file with a JWK Set (RFC 7517), or the https URL of one.
	Keys string `toml:"keys"`
	// Issuer is what the claim iss must be.
	Issuer string `toml:"issuer"`
	// Audience are values of the claim aud, one of which must be there.
	Audience []string `toml:"audience"`
	// Leeway is by how much clocks may differ.
	Leeway time.Duration `toml:"leeway" min:"1s" max:"10m" default:"30s"`
	// Cookie is the cookie that has the token where there is no Authorization field; "": none.
	Cookie string `toml:"cookie"`
	// UserClaim is the claim with the user's name, which must be there.
	UserClaim string `toml:"user_claim" default:"sub"`
	// CopyClaims are claims that go into the request, by the names of fields.
	CopyClaims map[string]string `toml:"copy_claims"`
}

const (
	maxToken     = 8 << 10 // bytes
	maxClaim     = 1 << 10 // of one that is copied
	bearerPrefix = "Bearer "
)

// tokens is a JWT made ready.
type tokens struct {
	keys      *keySet
	parser    *jwt.Parser
	cookie    string
	user      string
	fields    []string // names of fields for the application
	claims    []string // and their claims
	challenge string
}

// methods are the algorithms that count: not "none". The kind of a key decides which of them fit.
var methods = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384",
	"ES512", "EdDSA", "HS256", "HS384", "HS512"}

// newTokens checks the settings, and reads the keys of a file.
func newTokens(s Settings, env handlers.Env) (*tokens, error) {
	j := tags.Or(*s.JWT, tags.Defaults[JWT]())
	bad := func(key, format string, args ...any) (*tokens, error) {
		return nil, handlers.BadKey("jwt", "%s: %w", key, fmt.Errorf(format, args...))
	}
	switch {
	case s.Htpasswd != "" || s.Request != "":
		return nil, handlers.BadKey("jwt", "is in place of htpasswd and request; expected one of them")
	case j.Issuer == "":
		return bad("issuer", "missing; expected what the claim iss must be")
	case len(j.Audience) == 0 || slices.Contains(j.Audience, ""):
		return bad("audience", "missing; expected a value of the claim aud, such as that of this server")
	case j.Cookie != "" && !http1.ValidToken(j.Cookie):
		return bad("cookie", "%q is no name of a cookie", j.Cookie)
	}
	realm := s.Realm
	if realm == "" {
		realm = tags.Defaults[Settings]().Realm
	}
	if !http1.ValidFieldValue(realm) {
		return nil, handlers.BadKey("realm", "control characters cannot be part of it")
	}
	a := &tokens{cookie: j.Cookie, user: j.UserClaim,
		challenge: `Bearer realm="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(realm) + `"`,
		parser: jwt.NewParser(jwt.WithValidMethods(methods), jwt.WithExpirationRequired(),
			jwt.WithJSONNumber(), // a float64 would make one of two large numbers
			jwt.WithIssuer(j.Issuer), jwt.WithAudience(j.Audience...), jwt.WithLeeway(j.Leeway))}
	for _, name := range slices.Sorted(maps.Keys(j.CopyClaims)) {
		if err := handlers.CheckField(name); err != nil {
			return bad("copy_claims", "%s: %w", name, err)
		}
		if reason := unfit(name); reason != "" {
			return bad("copy_claims", "%s %s", name, reason)
		}
		a.fields, a.claims = append(a.fields, name), append(a.claims, j.CopyClaims[name])
	}
	var err error
	if a.keys, err = openKeys(j.Keys, env); err != nil {
		return bad("keys", "%w", err)
	}
	return a, nil
}

// around is the middleware.
func (a *tokens) around(next conn.Handler) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		if namesOf(req, a.fields) {
			return http.StatusBadRequest
		}
		if status := a.check(req, resp); status != 0 {
			return status
		}
		return next(req, resp)
	}
}

var (
	errNoKeys   = errors.New("there are no keys yet")
	errCritical = errors.New("an extension that must be understood") // RFC 7515 section 4.1.11
)

// check returns the status for a request without a token that counts, or 0. It may wait for new
// keys.
func (a *tokens) check(req *conn.Request, resp *conn.Response) int {
	token := a.token(req)
	if token == "" {
		resp.Header().Set("WWW-Authenticate", a.challenge)
		return http.StatusUnauthorized
	}
	said, err := a.claimsOf(req, token)
	if errors.Is(err, errNoKeys) {
		resp.Header().Set("Retry-After", "10")
		return http.StatusServiceUnavailable
	}
	user, _ := said[a.user].(string)
	if err != nil || user == "" || len(user) > maxName || !isWhole(user) {
		resp.Header().Set("WWW-Authenticate", a.challenge+`, error="invalid_token"`)
		return http.StatusUnauthorized
	}
	var copied []conn.Field
	for i, name := range a.fields {
		value, ok := claimText(said[a.claims[i]])
		if ok && len(value) <= maxClaim {
			copied = append(copied, conn.Field{Name: name, Value: value})
		}
	}
	req.Layer().ReplaceHeaders(a.fields, copied)
	req.Layer().SetUser(user, "")
	return 0
}

// token returns the token of a request; "": there is none, or it is too long, or one of several.
func (a *tokens) token(req *conn.Request) string {
	field, next := req.Layer().HeaderViewFrom("Authorization", 0)
	ok := next > 0
	if ok {
		if _, more := req.Layer().HeaderViewFrom("Authorization", next); more > 0 {
			return "" // the application may look at the other one
		}
	}
	switch {
	case ok && len(field) > len(bearerPrefix) && len(field) <= maxToken &&
		strings.EqualFold(string(field[:len(bearerPrefix)]), bearerPrefix):
		return string(field[len(bearerPrefix):])
	case a.cookie != "" && !ok:
		if value, _ := req.Cookie(a.cookie); len(value) <= maxToken {
			return value
		}
	}
	return ""
}

// claimsOf verifies a token. If its key is not known, the keys are read again, once.
func (a *tokens) claimsOf(req *conn.Request, token string) (jwt.MapClaims, error) {
	for again := false; ; again = true {
		set := a.keys.set.Load()
		if set == nil && again {
			return nil, errNoKeys
		}
		unknown := set == nil
		said := jwt.MapClaims{}
		var err error
		if set != nil {
			_, err = a.parser.ParseWithClaims(token, said, func(t *jwt.Token) (any, error) {
				if _, there := t.Header["crit"]; there {
					return nil, errCritical
				}
				keys := set.of(t)
				unknown = len(keys.Keys) == 0
				return keys, nil
			})
		}
		if !unknown || again {
			return said, err
		}
		a.keys.renew(req.Thread)
	}
}

// isWhole reports whether a text stays what it is in a field and in the access log: recipients take
// spaces at its ends away, so "ann " would become another user's name.
func isWhole(s string) bool {
	return http1.ValidFieldValue(s) && !strings.Contains(s, "\t") && strings.TrimSpace(s) == s
}

// claimText returns a claim as the value of a field: a text, a number, true or false, or a list of
// these.
func claimText(claim any) (string, bool) {
	switch v := claim.(type) {
	case string:
		return v, isWhole(v)
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	case []any:
		var all []string
		for _, e := range v {
			text, ok := claimText(e)
			if !ok || strings.Contains(text, ",") {
				return "", false
			}
			all = append(all, text)
		}
		return strings.Join(all, ","), len(all) > 0
	}
	return "", false
}
