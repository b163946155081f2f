// Package acme is an authority for tests that gives certificates by ACME (RFC 8555). It verifies
// names by the challenge tls-alpn-01 (RFC 8737), for which it really connects, and signatures,
// nonces and the states of orders are as they are elsewhere.
//
//	acme.go    the authority and its resources
//	verify.go  tls-alpn-01
//	jws.go     signed requests
package acme

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/wait"
)

// Server is the authority. Its methods are for any goroutine.
type Server struct {
	URL string           // of the directory
	CA  *certs.Authority // that signs

	server *httptest.Server

	mu        sync.Mutex
	target    string // what listens at port 443 of all names
	from, to  time.Duration
	refuse    func(step, name string) *Problem
	nonces    map[string]bool
	accounts  map[string]*account // by URL
	orders    []*order
	asked     []string // the steps
	badNonces int
}

// Problem is an error as clients get it (RFC 7807, RFC 8555 section 6.7).
type Problem struct {
	Status     int    `json:"status"`
	Type       string `json:"type"` // behind urn:ietf:params:acme:error:
	Detail     string `json:"detail"`
	RetryAfter string `json:"-"`
}

type account struct {
	key     key
	contact []string
}

// order is an order with its one authorization and its one challenge.
type order struct {
	account string
	domain  string
	token   string
	status  string // pending, ready, processing, valid, invalid
	authz   string // pending, processing (only the challenge says so), valid, invalid
	problem *Problem
	cert    []byte

	verified chan struct{} // closed when authz has become valid or invalid; nil: it is pending
}

// New starts an authority, which ends with the test. Its certificates are valid from an hour before
// for 90 days.
func New(t testing.TB) *Server {
	s := &Server{CA: certs.New(t), from: -time.Hour, to: 90 * 24 * time.Hour,
		nonces:   map[string]bool{},
		accounts: map[string]*account{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /dir", s.directory)
	mux.HandleFunc("/nonce", s.nonce)
	for path, f := range map[string]func(*request) (int, any, *Problem){
		"newAccount": s.newAccount, "account/{id}": s.updateAccount, "newOrder": s.newOrder,
		"order/{id}": s.order, "authz/{id}": s.authz, "challenge/{id}": s.challenge,
		"finalize/{id}": s.finalize, "cert/{id}": s.cert,
	} {
		step, _, _ := strings.Cut(path, "/")
		mux.HandleFunc("POST /"+path, func(w http.ResponseWriter, r *http.Request) {
			s.signed(w, r, step, f)
		})
	}
	s.server = httptest.NewUnstartedServer(mux)
	s.server.TLS = s.CA.Config("127.0.0.1", "localhost")
	s.server.StartTLS()
	t.Cleanup(s.Close)
	s.URL = s.server.URL + "/dir"
	return s
}

// Close ends the authority before the test does.
func (s *Server) Close() { s.server.Close() }

// Verify says what listens at port 443 of all names. Until it has, names wait to be verified.
func (s *Server) Verify(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.target = address
}

// listening waits until Verify has said what listens.
func (s *Server) listening() string {
	for end := time.Now().Add(wait.Patience); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		target := s.target
		s.mu.Unlock()
		if target != "" || time.Now().After(end) {
			return target
		}
	}
}

// Valid says for how long certificates are valid, from now on.
func (s *Server) Valid(from, to time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.to = from, to
}

// Refuse lets f say what is refused, and how. step is the name of a resource (newOrder, authz,
// challenge, finalize, cert), or verify; name is that of the order, if there is one.
func (s *Server) Refuse(f func(step, name string) *Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = f
}

// BadNonces refuses the nonces of the next n requests.
func (s *Server) BadNonces(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.badNonces = n
}

// Asked returns how often a step was asked for, refused or not.
func (s *Server) Asked(step string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if a == step {
			n++
		}
	}
	return n
}

// Contacts returns those of all accounts.
func (s *Server) Contacts() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.accounts {
		all = append(all, a.contact...)
	}
	slices.Sort(all)
	return all
}

// refused says how a step is refused. The caller does not hold s.mu.
func (s *Server) refused(step, name string) *Problem {
	s.mu.Lock()
	s.asked = append(s.asked, step)
	refuse := s.refuse
	s.mu.Unlock()
	if refuse == nil {
		return nil
	}
	return refuse(step, name)
}

func (s *Server) directory(w http.ResponseWriter, r *http.Request) {
	if p := s.refused("directory", ""); p != nil {
		p.write(w)
		return
	}
	at := s.server.URL
	writeJSON(w, http.StatusOK, map[string]any{"newNonce": at + "/nonce",
		"newAccount": at + "/newAccount", "newOrder": at + "/newOrder",
		"meta": map[string]any{"termsOfService": at + "/terms"}})
}

func (s *Server) nonce(w http.ResponseWriter, r *http.Request) {
	s.giveNonce(w)
	w.WriteHeader(http.StatusOK)
}

func (s *Server) giveNonce(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := random()
	s.nonces[n] = true
	w.Header().Set("Replay-Nonce", n)
}

// signed answers a signed request (RFC 8555 section 6.2).
func (s *Server) signed(w http.ResponseWriter, r *http.Request, step string,
	f func(*request) (int, any, *Problem)) {
	s.giveNonce(w)
	w.Header().Set("Link", "<"+s.URL+`>;rel="index"`)
	req, p := s.verifySignature(r, step == "newAccount")
	if p == nil {
		req.header = w.Header()
		p = s.find(req, step, r.PathValue("id"))
	}
	if p == nil {
		p = s.refused(step, req.name)
	}
	if p == nil && step == "authz" {
		s.await(r.Context(), req.order)
	}
	var status int
	var body any
	if p == nil {
		s.mu.Lock()
		status, body, p = f(req)
		s.mu.Unlock()
	}
	if p != nil {
		p.write(w)
		return
	}
	writeJSON(w, status, body)
}

// await waits until a name is verified, if that has begun: the client asks but once a second.
func (s *Server) await(ctx context.Context, o *order) {
	s.mu.Lock()
	verified := o.verified
	s.mu.Unlock()
	if verified != nil {
		select {
		case <-verified:
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// find finds the order that a request is about, and the name.
func (s *Server) find(r *request, step, id string) *Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if step == "newOrder" {
		var in struct {
			Identifiers []struct{ Type, Value string }
		}
		if p := r.decode(&in); p != nil {
			return p
		}
		if len(in.Identifiers) != 1 || in.Identifiers[0].Type != "dns" {
			return problem(http.StatusBadRequest, "unsupportedIdentifier", "expected one dns name")
		}
		r.name = in.Identifiers[0].Value
	}
	if id == "" || step == "account" {
		return nil
	}
	n, err := strconv.Atoi(id)
	if err != nil || n < 0 || n >= len(s.orders) || s.orders[n].account != r.account {
		return problem(http.StatusNotFound, "malformed", "there is no such order")
	}
	r.order, r.id, r.name = s.orders[n], n, s.orders[n].domain
	return nil
}

func (s *Server) newAccount(r *request) (int, any, *Problem) {
	var in struct {
		Agreed  bool     `json:"termsOfServiceAgreed"`
		Contact []string `json:"contact"`
	}
	if p := r.decode(&in); p != nil {
		return 0, nil, p
	}
	for url, a := range s.accounts {
		if a.key == r.key {
			r.header.Set("Location", url)
			return http.StatusOK, map[string]any{"status": "valid", "contact": a.contact}, nil
		}
	}
	if !in.Agreed {
		return 0, nil, problem(http.StatusForbidden, "userActionRequired", "agree to the terms")
	}
	url := fmt.Sprintf("%s/account/%d", s.server.URL, len(s.accounts))
	s.accounts[url] = &account{r.key, in.Contact}
	r.header.Set("Location", url)
	return http.StatusCreated, map[string]any{"status": "valid", "contact": in.Contact}, nil
}

func (s *Server) updateAccount(r *request) (int, any, *Problem) {
	var in struct {
		Contact []string `json:"contact"`
	}
	if p := r.decode(&in); p != nil {
		return 0, nil, p
	}
	a := s.accounts[r.account]
	a.contact = in.Contact
	r.header.Set("Location", r.account)
	return http.StatusOK, map[string]any{"status": "valid", "contact": a.contact}, nil
}

func (s *Server) newOrder(r *request) (int, any, *Problem) {
	r.order, r.id = &order{account: r.account, domain: r.name, token: random(), status: "pending",
		authz: "pending"}, len(s.orders)
	s.orders = append(s.orders, r.order)
	r.header.Set("Location", s.at("order", r.id))
	return http.StatusCreated, s.describe(r), nil
}

// at is a URL of an order.
func (s *Server) at(what string, id int) string {
	return fmt.Sprintf("%s/%s/%d", s.server.URL, what, id)
}

func (s *Server) describe(r *request) any {
	out := map[string]any{"status": r.order.status, "finalize": s.at("finalize", r.id),
		"authorizations": []string{s.at("authz", r.id)},
		"identifiers":    []any{map[string]string{"type": "dns", "value": r.order.domain}}}
	if r.order.status == "valid" {
		out["certificate"] = s.at("cert", r.id)
	}
	if r.order.problem != nil {
		out["error"] = r.order.problem.full()
	}
	return out
}

func (s *Server) order(r *request) (int, any, *Problem) {
	if r.order.status == "processing" { // the second time that the client asks
		r.order.status = "valid"
	}
	r.header.Set("Location", s.at("order", r.id))
	return http.StatusOK, s.describe(r), nil
}

func (s *Server) authz(r *request) (int, any, *Problem) {
	status := r.order.authz
	if status == "processing" {
		status = "pending"
	}
	return http.StatusOK, map[string]any{"status": status,
		"identifier": map[string]string{"type": "dns", "value": r.order.domain},
		"challenges": []any{map[string]any{"type": "http-01", "status": "pending",
			"url": s.at("http", r.id), "token": r.order.token}, s.describeChallenge(r)}}, nil
}

func (s *Server) describeChallenge(r *request) any {
	out := map[string]any{"type": "tls-alpn-01", "status": r.order.authz, "token": r.order.token,
		"url": s.at("challenge", r.id)}
	if r.order.problem != nil {
		out["error"] = r.order.problem.full()
	}
	return out
}

// challenge begins to verify the name.
func (s *Server) challenge(r *request) (int, any, *Problem) {
	if o := r.order; o.authz == "pending" {
		o.authz, o.verified = "processing", make(chan struct{})
		proof := o.token + "." + r.key.thumbprint()
		go func() {
			p := s.refused("verify", o.domain)
			if p == nil {
				p = verify(s.listening(), o.domain, proof)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			defer close(o.verified)
			if o.problem = p; p != nil {
				o.authz, o.status = "invalid", "invalid"
			} else {
				o.authz, o.status = "valid", "ready"
			}
		}()
	}
	return http.StatusOK, s.describeChallenge(r), nil
}

func (s *Server) finalize(r *request) (int, any, *Problem) {
	var in struct {
		CSR string `json:"csr"`
	}
	if p := r.decode(&in); p != nil {
		return 0, nil, p
	}
	o := r.order
	if o.status != "ready" {
		return 0, nil, problem(http.StatusForbidden, "orderNotReady", "the order is "+o.status)
	}
	der, err := base64.RawURLEncoding.DecodeString(in.CSR)
	var csr *x509.CertificateRequest
	if err == nil {
		csr, err = x509.ParseCertificateRequest(der)
	}
	if err == nil {
		err = csr.CheckSignature()
	}
	if err == nil && !slices.Equal(csr.DNSNames, []string{o.domain}) {
		err = fmt.Errorf("it is for %q", csr.DNSNames)
	}
	if err == nil {
		now := time.Now()
		o.cert, err = s.CA.Sign(csr, now.Add(s.from), now.Add(s.to))
	}
	if err != nil {
		return 0, nil, problem(http.StatusBadRequest, "badCSR", err.Error())
	}
	o.status = "processing"
	if r.id%2 == 1 { // some authorities say it and some do not
		r.header.Set("Location", s.at("order", r.id))
	}
	return http.StatusOK, s.describe(r), nil
}

func (s *Server) cert(r *request) (int, any, *Problem) {
	if r.order.status != "valid" {
		return 0, nil, problem(http.StatusForbidden, "malformed", "the order is "+r.order.status)
	}
	return http.StatusOK, r.order.cert, nil
}

func problem(status int, kind, detail string) *Problem {
	return &Problem{Status: status, Type: kind, Detail: detail}
}

func (p *Problem) full() Problem {
	full := *p
	full.Type = "urn:ietf:params:acme:error:" + p.Type
	return full
}

func (p *Problem) write(w http.ResponseWriter) {
	if p.RetryAfter != "" {
		w.Header().Set("Retry-After", p.RetryAfter)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p.full()) // the client may have left
}

// writeJSON writes bytes as a chain of certificates, and all else in JSON.
func writeJSON(w http.ResponseWriter, status int, body any) {
	if chain, ok := body.([]byte); ok {
		w.Header().Set("Content-Type", "application/pem-certificate-chain")
		w.WriteHeader(status)
		_, _ = w.Write(chain)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
