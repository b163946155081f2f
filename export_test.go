package lwango

import "github.com/lwango/lwango/internal/tls/certs"

// ObtainBy returns s with options for its certificates of ACME.
func ObtainBy(s Server, o certs.Options) Server {
	s.obtain = o
	return s
}

// SourceOf returns what s is started with.
func SourceOf(s Server) any { return s.source() }
