package acme

import (
	"net/http"
	"time"
)

// Renew says in which time certificates are to be renewed (RFC 9773). Before the first call, the
// directory has no renewal information.
func (s *Server) Renew(from, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.window = [2]time.Time{from, to}
}

// Replaced returns the identifiers of the certificates that orders were to replace.
func (s *Server) Replaced() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.replaced...)
}

func (s *Server) renewal(w http.ResponseWriter, r *http.Request) {
	if p := s.refused("renewal", r.PathValue("id")); p != nil {
		p.write(w)
		return
	}
	s.mu.Lock()
	window := s.window
	s.mu.Unlock()
	w.Header().Set("Retry-After", "3600")
	writeJSON(w, http.StatusOK, map[string]any{"suggestedWindow": map[string]any{
		"start": window[0], "end": window[1]}})
}
