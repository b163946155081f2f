package metrics_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/metrics"
)

// TestWarnings: what is wrong now is said once, and what was wrong earlier no more.
func TestWarnings(t *testing.T) {
	now := time.Now()
	day := func(n int) time.Time { return now.Add(time.Duration(n) * 24 * time.Hour) }
	good := metrics.Snapshot{Time: now, Loops: []metrics.Loop{{Answered: true}},
		Requests:  metrics.Requests{Panics: 5},
		MinuteAgo: &metrics.Snapshot{Requests: metrics.Requests{Panics: 5}},
		Upstreams: []metrics.Upstream{{Address: "a:1", Up: true}, {Address: "b:1", State: "drain"}},
		Certificates: []metrics.Certificate{
			{Names: []string{"a.example"}, Until: day(40), WarnFrom: day(26)}},
		Stalls: []metrics.Stall{{Since: now.Add(-10 * time.Minute)}}}
	for name, c := range map[string]struct {
		change func(s *metrics.Snapshot)
		want   []string
	}{
		"nothing":                   {func(*metrics.Snapshot) {}, []string{}},
		"before there is a history": {func(s *metrics.Snapshot) { s.MinuteAgo = nil }, []string{}},
		"a loop": {func(s *metrics.Snapshot) { s.Loops = []metrics.Loop{{Loop: 3}} },
			[]string{"Loop 3 is held up by a handler."}},
		"a limit": {func(s *metrics.Snapshot) { s.Connections.Refusing = 2 },
			[]string{"There are 2 connections beyond the limit: they get 503."}},
		"a panic": {func(s *metrics.Snapshot) { s.Requests.Panics = 6 },
			[]string{"Panics in the last minute: 1. The log has them."}},
		"a refused reload": {func(s *metrics.Snapshot) {
			s.Reload = metrics.Reload{Last: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Error: "f:3: no"}
		}, []string{"The reload of 2026-01-02 03:04 was refused: f:3: no"}},
		"descriptors": {func(s *metrics.Snapshot) {
			s.Process = metrics.Process{OpenFiles: 950, MaxFiles: 1000}
		}, []string{"Of 1000 files that the process may have open, 950 are."}},
		"half of the descriptors": {func(s *metrics.Snapshot) {
			s.Process = metrics.Process{OpenFiles: 500, MaxFiles: 1000}
		}, []string{}},
		"lost lines": {func(s *metrics.Snapshot) { s.Logs = metrics.Logs{Access: 7, Error: 1} },
			[]string{"Lines of access logs lost in the last minute: 7.",
				"Lines of the server's log lost in the last minute: 1."}},
		"an upstream of two routes": {func(s *metrics.Snapshot) {
			s.Upstreams = []metrics.Upstream{{Address: "a:1"}, {Address: "a:1", Route: "/x"}}
		}, []string{"Upstream a:1 has failed."}},
		"certificates": {func(s *metrics.Snapshot) {
			s.Certificates = []metrics.Certificate{
				{Names: []string{"a.example", "b.example", "c.example"}, Until: day(3), WarnFrom: day(-1)},
				{File: "old.pem", Until: day(-1), WarnFrom: day(-15)}, {Names: []string{"new.example"}}}
		}, []string{"The certificate of a.example, b.example expires on " +
			day(3).Format(time.DateOnly) + ".", "The certificate of old.pem has expired.",
			"The certificate of new.example is still to be obtained."}},
		"a stall": {func(s *metrics.Snapshot) {
			s.Stalls = append(s.Stalls, metrics.Stall{Since: now.Add(-time.Minute)})
		}, []string{"Handlers have held loops up in the last five minutes: see the stalls."}},
	} {
		s := good
		s.Stalls = slices.Clone(good.Stalls)
		c.change(&s)
		if s.Warn(); !slices.Equal(s.Warnings, c.want) {
			t.Errorf("%s: %q, want %q", name, s.Warnings, c.want)
		}
	}
}
