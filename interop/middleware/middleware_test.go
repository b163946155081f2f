// Package middleware tries what programs of net/http live on, around native handlers and within
// them: otelhttp, rs/cors, scs, chi's middleware, and an OIDC client.
package middleware

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/alexedwards/scs/v2/memstore"
	"github.com/coreos/go-oidc/v3/oidc"
	chi "github.com/go-chi/chi/v5/middleware"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/rs/cors"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"
	"golang.org/x/oauth2"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/lwangotest"
)

func TestMain(m *testing.M) { lwangotest.Main(m) }

// forms are the two ways in which middleware wraps a native handler.
var forms = map[string]func(func(http.Handler) http.Handler) lwango.Middleware{
	"off the loop": lwango.HTTPMiddleware,
	"on the loop":  lwango.HTTPMiddlewareOnLoop,
}

// bothForms gives each form the same test.
func bothForms(t *testing.T,
	f func(t *testing.T, form func(func(http.Handler) http.Handler) lwango.Middleware)) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) { f(t, form) })
	}
}

// TestOpenTelemetry: the span of a request goes on from the client's, a native handler and an
// http.Handler behind it find it, and the call to another server is a child of it and says so
// there.
func TestOpenTelemetry(t *testing.T) {
	bothForms(t, func(t *testing.T, form func(func(http.Handler) http.Handler) lwango.Middleware) {
		spans := tracetest.NewSpanRecorder()
		provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
		options := []otelhttp.Option{otelhttp.WithTracerProvider(provider),
			otelhttp.WithPropagators(propagation.TraceContext{})}
		parents := make(chan string, 2)
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			parents <- r.Header.Get("Traceparent")
			io.WriteString(w, "price")
		}))
		defer other.Close()
		sdk := &http.Client{Transport: otelhttp.NewTransport(&client.Transport{}, options...)}
		native := func(req *lwango.Request, resp *lwango.Response) int {
			body, err := io.ReadAll(req.Body())
			if err != nil {
				return resp.Error(400, err)
			}
			ctx := client.OnThread(req.Context(), req.Thread)
			r, err := http.NewRequestWithContext(ctx, "GET", other.URL, nil)
			if err != nil {
				return resp.Error(500, err)
			}
			answer, err := sdk.Do(r)
			if err != nil {
				return resp.Error(502, err)
			}
			defer answer.Body.Close()
			price, err := io.ReadAll(answer.Body)
			if err != nil {
				return resp.Error(502, err)
			}
			off, _ := lwango.Await(req, time.Minute, func(ctx context.Context) (string, error) {
				return oteltrace.SpanContextFromContext(ctx).SpanID().String(), nil
			})
			return resp.Text(201, fmt.Sprint(string(price), " ", string(body), " ", off))
		}
		std := func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, oteltrace.SpanContextFromContext(r.Context()).SpanID().String())
		}
		mux := lwango.NewMux()
		mux.Use(form(otelhttp.NewMiddleware("request", options...)))
		mux.Handle("POST /native", native)
		mux.Handle("GET /std", lwango.HTTP(http.HandlerFunc(std)))
		mux.Handle("GET /loop", lwango.HTTPOnLoop(http.HandlerFunc(std)))
		s := lwangotest.Start(t, mux.Serve)

		const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
		from := "Traceparent: 00-" + trace + "-" + span + "-01"
		a := s.Do("POST", "/native", "order", from)
		ended := spans.Ended()
		if len(ended) != 2 {
			t.Fatalf("%d spans; %s %s", len(ended), a.Status, a.Text)
		}
		out, in := ended[0], ended[1]
		if a.StatusCode != 201 || a.Text != "price order "+in.SpanContext().SpanID().String() {
			t.Errorf("%s: %q", a.Status, a.Text)
		}
		if in.Parent().SpanID().String() != span || in.SpanContext().TraceID().String() != trace ||
			out.Parent().SpanID() != in.SpanContext().SpanID() {
			t.Errorf("parents %v and %v", in.Parent(), out.Parent())
		}
		want := "00-" + trace + "-" + out.SpanContext().SpanID().String() + "-01"
		if got := <-parents; got != want {
			t.Errorf("the other server got %q, want %q", got, want)
		}
		attributes := make(map[string]string)
		for _, a := range in.Attributes() {
			attributes[string(a.Key)] = a.Value.String()
		}
		if attributes["http.response.status_code"] != "201" ||
			attributes["http.request.body.size"] != "5" && attributes["http.request.body.size"] != "" {
			t.Errorf("attributes %v", attributes)
		}
		for _, path := range []string{"/std", "/loop"} {
			a := s.Get(path, from)
			ended := spans.Ended()
			in := ended[len(ended)-1]
			if a.Text != in.SpanContext().SpanID().String() || in.Parent().SpanID().String() != span {
				t.Errorf("%s: %q, span %v", path, a.Text, in.SpanContext())
			}
		}
	})
}

// TestCORS: rs/cors answers a preflight itself, and adds fields to the answers of native handlers.
func TestCORS(t *testing.T) {
	bothForms(t, func(t *testing.T, form func(func(http.Handler) http.Handler) lwango.Middleware) {
		c := cors.New(cors.Options{AllowedOrigins: []string{"https://a.example"},
			AllowedMethods: []string{"GET", "PUT"}})
		mux := lwango.NewMux()
		mux.Use(form(c.Handler))
		mux.Handle("GET /{$}", func(_ *lwango.Request, resp *lwango.Response) int {
			resp.Header().Vary("Accept")
			return resp.JSON(200, "hello")
		})
		s := lwangotest.Start(t, mux.Serve)
		a := s.Do("OPTIONS", "/", "", "Origin: https://a.example", "Access-Control-Request-Method: PUT")
		if a.StatusCode != 204 || a.Header.Get("Access-Control-Allow-Methods") != "PUT" {
			t.Errorf("preflight: %s %v", a.Status, a.Header)
		}
		for origin, want := range map[string]string{"https://a.example": "https://a.example",
			"https://b.example": ""} {
			a := s.Get("/", "Origin: "+origin)
			vary := strings.Join(a.Header.Values("Vary"), ", ")
			if a.Text != "\"hello\"\n" || a.Header.Get("Access-Control-Allow-Origin") != want ||
				vary != "Origin, Accept" {
				t.Errorf("%s: %s %q %v", origin, a.Status, a.Text, a.Header)
			}
		}
		if a := s.Get("/none", "Origin: https://a.example"); a.StatusCode != 404 ||
			a.Header.Get("Access-Control-Allow-Origin") == "" {
			t.Errorf("without a pattern: %s %v", a.Status, a.Header)
		}
	})
}

// TestSessions: scs keeps what a native handler puts into a session, whatever way it answers in.
func TestSessions(t *testing.T) {
	bothForms(t, func(t *testing.T, form func(func(http.Handler) http.Handler) lwango.Middleware) {
		sessions := &scs.SessionManager{ // what New makes has a goroutine that does not end
			Store: memstore.NewWithCleanupInterval(0), Codec: scs.GobCodec{}, Lifetime: time.Hour,
			Cookie: scs.SessionCookie{Name: "session", Path: "/"},
		}
		answers := map[string]lwango.Handler{
			"text":  func(_ *lwango.Request, resp *lwango.Response) int { return resp.Text(0, "in") },
			"empty": func(*lwango.Request, *lwango.Response) int { return 0 },
			"error": func(*lwango.Request, *lwango.Response) int { return 403 },
			"redirect": func(_ *lwango.Request, resp *lwango.Response) int {
				return resp.Redirect(303, "/")
			},
			"stream": func(_ *lwango.Request, resp *lwango.Response) int {
				for range 3 {
					resp.WriteString("more")
					if err := resp.Flush(); err != nil {
						return resp.Error(500, err)
					}
				}
				return 0
			},
		}
		mux := lwango.NewMux()
		mux.Use(form(sessions.LoadAndSave))
		mux.Handle("POST /login/{way}", func(req *lwango.Request, resp *lwango.Response) int {
			if err := sessions.RenewToken(req.Context()); err != nil {
				return resp.Error(500, err)
			}
			sessions.Put(req.Context(), "user", "ann")
			return answers[req.PathValue("way")](req, resp)
		})
		mux.Handle("GET /user", func(req *lwango.Request, resp *lwango.Response) int {
			return resp.Text(0, sessions.GetString(req.Context(), "user"))
		})
		s := lwangotest.Start(t, mux.Serve)
		for way := range answers {
			a := s.Do("POST", "/login/"+way, "")
			cookies := a.Cookies()
			if len(cookies) != 1 {
				t.Errorf("%s: %s, cookies %v", way, a.Status, cookies)
				continue
			}
			if a := s.Get("/user", "Cookie: "+cookies[0].Name+"="+cookies[0].Value); a.Text != "ann" {
				t.Errorf("%s: the user is %q", way, a.Text)
			}
		}
		if a := s.Get("/user"); a.Text != "" || len(a.Cookies()) > 0 {
			t.Errorf("a stranger: %q, %v", a.Text, a.Cookies())
		}
	})
}

// TestChi: chi's middleware, one around the other.
func TestChi(t *testing.T) {
	bothForms(t, func(t *testing.T, form func(func(http.Handler) http.Handler) lwango.Middleware) {
		entered, leave := make(chan bool), make(chan struct{})
		mux := lwango.NewMux()
		mux.Use(form(chi.RequestID), form(chi.Recoverer))
		mux.Handle("GET /id", func(req *lwango.Request, resp *lwango.Response) int {
			return resp.Text(0, chi.GetReqID(req.Context()))
		})
		mux.Handle("GET /panic", func(_ *lwango.Request, resp *lwango.Response) int {
			resp.WriteString("secret")
			panic("boom")
		})
		mux.Group("/timeout", form(chi.Timeout(10*time.Millisecond))).Handle("GET /{way}",
			func(req *lwango.Request, resp *lwango.Response) int {
				var err error
				switch req.PathValue("way") {
				case "sleep":
					err = req.Sleep(time.Minute)
				case "await":
					err = req.Await(time.Minute, func(ctx context.Context) error {
						<-ctx.Done()
						return ctx.Err()
					})
				case "quick":
					return resp.Text(0, "quick")
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", req.PathValue("way"), err)
				}
				return 0
			})
		mux.Group("/throttle", form(chi.Throttle(1))).Handle("GET /{$}",
			func(req *lwango.Request, resp *lwango.Response) int {
				if req.Query().Has("wait") {
					entered <- true
					err := req.Await(time.Minute, func(context.Context) error { <-leave; return nil })
					if err != nil {
						return resp.Error(500, err)
					}
				}
				return resp.Text(0, "in")
			})
		logger := chi.RequestLogger(&chi.DefaultLogFormatter{Logger: discard{}, NoColor: true})
		mux.Group("/logged", form(logger), form(chi.Compress(5))).Handle("GET /{$}",
			func(_ *lwango.Request, resp *lwango.Response) int {
				return resp.Text(0, strings.Repeat("hello ", 1000))
			})
		s := lwangotest.Start(t, mux.Serve)
		if a := s.Get("/id", "X-Request-Id: given"); a.Text != "given" {
			t.Errorf("RequestID: %q", a.Text)
		}
		if a := s.Get("/panic"); a.StatusCode != 500 || strings.Contains(a.Text, "secret") {
			t.Errorf("Recoverer: %s %q", a.Status, a.Text)
		}
		for way, want := range map[string]int{"sleep": 504, "await": 504, "quick": 200} {
			if a := s.Get("/timeout/" + way); a.StatusCode != want {
				t.Errorf("Timeout, %s: %s %q", way, a.Status, a.Text)
			}
		}
		var first lwangotest.Answer
		var done sync.WaitGroup
		done.Go(func() {
			a, err := http.Get(s.URL + "/throttle/?wait")
			if err != nil {
				t.Error(err)
				return
			}
			defer a.Body.Close()
			text, _ := io.ReadAll(a.Body)
			first = lwangotest.Answer{Response: a, Text: string(text)}
		})
		<-entered
		if a := s.Get("/throttle/"); a.StatusCode != 429 {
			t.Errorf("Throttle, a second request: %s %q", a.Status, a.Text)
		}
		close(leave)
		done.Wait()
		if first.Text != "in" {
			t.Errorf("Throttle, the first: %+v", first)
		}
		if a := s.Get("/throttle/"); a.StatusCode != 200 {
			t.Errorf("Throttle, behind it: %s", a.Status)
		}
		a := s.Get("/logged/", "Accept-Encoding: gzip")
		if a.Header.Get("Content-Encoding") != "gzip" || len(a.Text) > 1000 {
			t.Errorf("Compress: %s, %d bytes, %v", a.Status, len(a.Text), a.Header)
		}
	})
	http.DefaultClient.CloseIdleConnections()
}

type discard struct{}

func (discard) Print(...any) {}

// TestThrottleWaits: middleware that blocks until another request has gone works off the loop.
func TestThrottleWaits(t *testing.T) {
	entered, leave := make(chan bool, 2), make(chan struct{})
	h := lwango.HTTPMiddleware(chi.ThrottleBacklog(1, 5, time.Minute))(
		func(req *lwango.Request, resp *lwango.Response) int {
			entered <- true
			err := req.Await(time.Minute, func(context.Context) error { <-leave; return nil })
			if err != nil {
				return resp.Error(500, err)
			}
			return resp.Text(0, "in")
		})
	s := lwangotest.Start(t, func(req *lwango.Request, resp *lwango.Response) int {
		if req.Path() == "/free" {
			return resp.Text(0, "free")
		}
		return h(req, resp)
	})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			a, err := http.Get(s.URL)
			if err != nil {
				t.Error(err)
				return
			}
			defer a.Body.Close()
			if text, _ := io.ReadAll(a.Body); string(text) != "in" {
				t.Errorf("%s: %q", a.Status, text)
			}
		})
	}
	<-entered
	if a := s.Get("/free"); a.Text != "free" { // while one waits in the middleware
		t.Errorf("%s: %q", a.Status, a.Text)
	}
	close(leave)
	all.Wait()
	http.DefaultClient.CloseIdleConnections()
}

// issuer is an OpenID provider that signs what it is asked for.
type issuer struct {
	*httptest.Server
	key *rsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &issuer{key: key}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /.well-known/openid-configuration",
		func(w http.ResponseWriter, _ *http.Request) {
			answer(w, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/auth",
				"token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
				"userinfo_endpoint":                     p.URL + "/userinfo",
				"id_token_signing_alg_values_supported": []string{"RS256"}})
		})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "k",
			Algorithm: "RS256", Use: "sig"}}})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("code") != "code-of-ann" {
			http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
			return
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key},
			(&jose.SignerOptions{}).WithHeader("kid", "k"))
		if err != nil {
			t.Error(err)
			return
		}
		token, err := jwt.Signed(signer).Claims(jwt.Claims{Issuer: p.URL, Subject: "ann",
			Audience: jwt.Audience{"shop"}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)),
			IssuedAt: jwt.NewNumericDate(time.Now())}).Serialize()
		if err != nil {
			t.Error(err)
		}
		answer(w, map[string]any{"access_token": "access", "token_type": "Bearer", "id_token": token})
	})
	mux.HandleFunc("GET /userinfo", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer access" {
			w.WriteHeader(401)
			return
		}
		answer(w, map[string]any{"sub": "ann", "email": "ann@a.example"})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// TestOIDC: a handler exchanges a code and asks for the user on its thread, by client.Transport.
// What go-oidc fetches on goroutines of its own, the keys, it waits for; so Verify runs off the
// loop.
func TestOIDC(t *testing.T) {
	p := newIssuer(t)
	std := new(http.Transport)
	defer std.CloseIdleConnections()
	c := &http.Client{Transport: &client.Transport{Elsewhere: std}}
	provider, err := oidc.NewProvider(oidc.ClientContext(context.Background(), c), p.URL)
	if err != nil {
		t.Fatal(err)
	}
	verifier := provider.Verifier(&oidc.Config{ClientID: "shop"})
	config := oauth2.Config{ClientID: "shop", ClientSecret: "secret", Endpoint: provider.Endpoint(),
		RedirectURL: "http://shop.example/callback", Scopes: []string{oidc.ScopeOpenID}}
	mux := lwango.NewMux()
	mux.Handle("GET /login", func(_ *lwango.Request, resp *lwango.Response) int {
		return resp.Redirect(303, config.AuthCodeURL("state"))
	})
	mux.Handle("GET /callback", func(req *lwango.Request, resp *lwango.Response) int {
		ctx := oidc.ClientContext(client.OnThread(req.Context(), req.Thread), c)
		token, err := config.Exchange(ctx, req.Query().Get("code"))
		if err != nil {
			return resp.Error(401, errors.New("the code is not valid"))
		}
		raw, _ := token.Extra("id_token").(string)
		id, err := lwango.Await(req, time.Minute, func(ctx context.Context) (*oidc.IDToken, error) {
			return verifier.Verify(ctx, raw)
		})
		if err != nil {
			return resp.Error(401, err)
		}
		info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
		if err != nil {
			return resp.Error(502, err)
		}
		return resp.Text(200, id.Subject+" "+info.Email)
	})
	s := lwangotest.Start(t, mux.Serve)
	if a := s.Get("/login"); a.StatusCode != 303 ||
		!strings.HasPrefix(a.Header.Get("Location"), p.URL+"/auth?") {
		t.Errorf("%s, %s", a.Status, a.Header.Get("Location"))
	}
	for range 2 {
		if a := s.Get("/callback?code=code-of-ann"); a.Text != "ann ann@a.example" {
			t.Errorf("%s: %q", a.Status, a.Text)
		}
	}
	if a := s.Get("/callback?code=other"); a.StatusCode != 401 {
		t.Errorf("%s: %q", a.Status, a.Text)
	}
}
