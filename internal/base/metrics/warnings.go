package metrics

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// stallWarning is how long a stall is warned of.
const stallWarning = 5 * time.Minute

// Warn sets s.Warnings: what somebody has to look at now. It is called when the rest of s is set.
func (s *Snapshot) Warn() {
	s.Warnings = []string{}
	warn := func(format string, args ...any) {
		s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
	}
	for _, l := range s.Loops {
		if !l.Answered {
			warn("Loop %d is held up by a handler.", l.Loop)
		}
	}
	if n := s.Connections.Refusing; n > 0 {
		warn("There are %d connections beyond the limit: they get 503.", n)
	}
	if r := &s.Reload; r.Error != "" {
		warn("The reload of %s was refused: %s", r.Last.Format("2006-01-02 15:04"), r.Error)
	}
	if p := &s.Process; p.OpenFiles*10 > p.MaxFiles*9 {
		warn("Of %d files that the process may have open, %d are.", p.MaxFiles, p.OpenFiles)
	}
	if ago := s.MinuteAgo; ago != nil {
		for _, c := range []struct {
			now, ago int64
			text     string
		}{
			{s.Requests.Panics, ago.Requests.Panics, "Panics in the last minute: %d. The log has them."},
			{s.Logs.Access, ago.Logs.Access, "Lines of access logs lost in the last minute: %d."},
			{s.Logs.Error, ago.Logs.Error, "Lines of the server's log lost in the last minute: %d."},
		} {
			if n := c.now - c.ago; n > 0 {
				warn(c.text, n)
			}
		}
	}
	failed := map[string]bool{}
	for i := range s.Upstreams {
		if u := &s.Upstreams[i]; u.Shown() == "failed" && !failed[u.Address] {
			failed[u.Address] = true
			warn("Upstream %s has failed.", u.Address)
		}
	}
	for _, c := range s.Certificates {
		name := cmp.Or(strings.Join(c.Names[:min(len(c.Names), 2)], ", "), c.File)
		switch {
		case c.Until.IsZero():
			warn("The certificate of %s is still to be obtained.", name)
		case s.Time.After(c.Until):
			warn("The certificate of %s has expired.", name)
		case s.Time.After(c.WarnFrom):
			warn("The certificate of %s expires on %s.", name, c.Until.Format(time.DateOnly))
		}
	}
	stalls := 0
	for _, st := range s.Stalls {
		if s.Time.Sub(st.Since) < stallWarning {
			stalls++
		}
	}
	if stalls > 0 {
		warn("Handlers have held loops up in the last five minutes: see the stalls.")
	}
}
