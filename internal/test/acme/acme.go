// Package acme is an authority for tests that gives certificates by ACME (RFC 8555). It verifies
// names by the challenges tls-alpn-01 (RFC 8737) and http-01, for which it really connects, and by
// dns-01. Signatures, nonces and the states of orders are as they are elsewhere.
//
//	acme.go    the authority and its resources
//	verify.go  challenges
//	renew.go   renewal information
//	jws.go     signed requests
package acme

import (
	"cmp"
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
	clear     string // what listens at port 80 of all names
	records   func(name string) []string
	from, to  time.Duration
	refuse    func(step, name string) *Problem
	nonces    map[string]bool
	accounts  map[string]*account // by URL
	orders    []*order
	asked     []string // the steps
	badNonces int
	keys      map[string][]byte // of external accounts, by identifier; nil: none is asked for
	window    [2]time.Time      // in which certificates are to be renewed; zero: nothing is said
	replaced  []string          // by orders
	other     string            // name that authorizations are said to be for; "": their own
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

// order is an order with an authorization for each name.
type order struct {
	account string
	names   []string
	status  string // pending, ready, processing, valid, invalid
	problem *Problem
	cert    []byte
	authz   []*authz
}

// authz is an authorization. Its challenges have one token.
type authz struct {
	name    string
	token   string
	chosen  string // the challenge
	status  string // pending, processing (only the challenge says so), valid, invalid
	problem *Problem

	verified chan struct{} // closed when status has become valid or invalid; nil: it is pending
}

// challenges are those that are offered.
var challenges = []string{"http-01", "tls-alpn-01", "dns-01"}

// New starts an authority, which ends with the test. Its certificates are valid from an hour before
// for 90 days.
func New(t testing.TB) *Server {
	s := &Server{CA: certs.New(t), from: -time.Hour, to: 90 * 24 * time.Hour,
		nonces:   map[string]bool{},
		accounts: map[string]*account{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /dir", s.directory)
	mux.HandleFunc("/nonce", s.nonce)
	mux.HandleFunc("GET /renewal/{id}", s.renewal)
	for path, f := range map[string]func(*request) (int, any, *Problem){
		"newAccount": s.newAccount, "account/{id}": s.updateAccount, "newOrder": s.newOrder,
		"order/{id}": s.order, "authz/{id}/{n}": s.authz, "challenge/{id}/{n}/{type}": s.challenge,
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

// Misname has the authority ask for proofs of another name than that of the order.
func (s *Server) Misname(other string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.other = other
}

// VerifyHTTP says what listens at port 80 of all names.
func (s *Server) VerifyHTTP(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear = address
}

// VerifyDNS says which TXT records a name has.
func (s *Server) VerifyDNS(records func(name string) []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = records
}

// listening waits until Verify has said what listens.
func (s *Server) listening(challenge string) string {
	for end := time.Now().Add(wait.Patience); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		target := s.target
		if challenge == "http-01" && target != "" {
			target = s.clear
		}
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

// Tokens returns those of all challenges.
func (s *Server) Tokens() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.orders {
		for _, z := range o.authz {
			all = append(all, z.token)
		}
	}
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
	out := map[string]any{"newNonce": at + "/nonce",
		"newAccount": at + "/newAccount", "newOrder": at + "/newOrder",
		"meta": map[string]any{"termsOfService": at + "/terms"}}
	s.mu.Lock()
	if !s.window[0].IsZero() {
		out["renewalInfo"] = at + "/renewal"
	}
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, out)
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
		req.challenge = r.PathValue("type")
		p = s.find(req, step, r.PathValue("id"), r.PathValue("n"))
	}
	if p == nil {
		p = s.refused(step, req.name)
	}
	if p == nil && step == "authz" {
		s.await(r.Context(), req.authz)
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
func (s *Server) await(ctx context.Context, z *authz) {
	s.mu.Lock()
	verified := z.verified
	s.mu.Unlock()
	if verified != nil {
		select {
		case <-verified:
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// find finds the order and the authorization that a request is about, and the name.
func (s *Server) find(r *request, step, id, number string) *Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	if step == "newOrder" {
		if p := r.decode(&r.wanted); p != nil {
			return p
		}
		for _, i := range r.wanted.Identifiers {
			if i.Type != "dns" {
				return problem(http.StatusBadRequest, "unsupportedIdentifier", "expected dns names")
			}
			r.names = append(r.names, i.Value)
		}
		if len(r.names) == 0 {
			return problem(http.StatusBadRequest, "malformed", "expected a name")
		}
		r.name = r.names[0]
	}
	if id == "" || step == "account" {
		return nil
	}
	n, err := strconv.Atoi(id)
	if err != nil || n < 0 || n >= len(s.orders) || s.orders[n].account != r.account {
		return problem(http.StatusNotFound, "malformed", "there is no such order")
	}
	r.order, r.id, r.name = s.orders[n], n, s.orders[n].names[0]
	if number == "" {
		return nil
	}
	n, err = strconv.Atoi(number)
	if err != nil || n < 0 || n >= len(r.order.authz) {
		return problem(http.StatusNotFound, "malformed", "there is no such authorization")
	}
	r.authz, r.name = r.order.authz[n], r.order.authz[n].name
	return nil
}

func (s *Server) newAccount(r *request) (int, any, *Problem) {
	var in struct {
		Agreed  bool     `json:"termsOfServiceAgreed"`
		Contact []string `json:"contact"`
		Binding *signed  `json:"externalAccountBinding"`
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
	if p := s.bound(in.Binding, r.key); p != nil {
		return 0, nil, p
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
	r.order, r.id = &order{account: r.account, names: r.names, status: "pending"}, len(s.orders)
	for _, name := range r.names {
		r.order.authz = append(r.order.authz, &authz{name: name, token: random(), status: "pending"})
	}
	if id := r.wanted.Replaces; id != "" {
		if slices.Contains(s.replaced, id) {
			return 0, nil, problem(http.StatusConflict, "alreadyReplaced", "replaced already: "+id)
		}
		s.replaced = append(s.replaced, id)
	}
	s.orders = append(s.orders, r.order)
	r.header.Set("Location", s.at("order", r.id))
	return http.StatusCreated, s.describe(r), nil
}

// at is a URL of an order.
func (s *Server) at(what string, id int) string {
	return fmt.Sprintf("%s/%s/%d", s.server.URL, what, id)
}

func (s *Server) describe(r *request) any {
	out := map[string]any{"status": r.order.status, "finalize": s.at("finalize", r.id)}
	var identifiers, all []any
	for i, z := range r.order.authz {
		identifiers = append(identifiers, map[string]string{"type": "dns", "value": z.name})
		all = append(all, fmt.Sprintf("%s/%d", s.at("authz", r.id), i))
	}
	out["identifiers"], out["authorizations"] = identifiers, all
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
	z := r.authz
	status := z.status
	if status == "processing" {
		status = "pending"
	}
	var all []any
	for _, kind := range challenges {
		all = append(all, s.describeChallenge(r, kind))
	}
	name, wildcard := strings.CutPrefix(z.name, "*.")
	if wildcard {
		all = all[2:] // dns-01
	}
	return http.StatusOK, map[string]any{"status": status, "wildcard": wildcard,
		"identifier": map[string]string{"type": "dns", "value": cmp.Or(s.other, name)},
		"challenges": all}, nil
}

func (s *Server) describeChallenge(r *request, kind string) any {
	n := slices.Index(r.order.authz, r.authz)
	out := map[string]any{"type": kind, "status": "pending", "token": r.authz.token,
		"url": fmt.Sprintf("%s/%d/%s", s.at("challenge", r.id), n, kind)}
	if kind == r.authz.chosen {
		out["status"] = r.authz.status
		if r.authz.problem != nil {
			out["error"] = r.authz.problem.full()
		}
	}
	return out
}

// challenge begins to verify a name.
func (s *Server) challenge(r *request) (int, any, *Problem) {
	o, z := r.order, r.authz
	if z.status == "pending" {
		z.status, z.chosen, z.verified = "processing", r.challenge, make(chan struct{})
		proof := z.token + "." + r.key.thumbprint()
		go func() {
			p := s.refused("verify", z.name)
			if p == nil {
				p = s.verify(z, proof)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			defer close(z.verified)
			if z.problem = p; p != nil {
				z.status, o.status, o.problem = "invalid", "invalid", p
				return
			}
			z.status = "valid"
			if !slices.ContainsFunc(o.authz, func(z *authz) bool { return z.status != "valid" }) {
				o.status = "ready"
			}
		}()
	}
	return http.StatusOK, s.describeChallenge(r, z.chosen), nil
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
	if err == nil && !slices.Equal(csr.DNSNames, o.names) {
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
