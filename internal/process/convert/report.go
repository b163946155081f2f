package convert

import (
	"fmt"
	"slices"
	"strings"
)

// level says what became of a directive.
type level int

const (
	left     level = iota // it is not carried over, and stands as a comment in the result
	differs               // it is carried over, and not quite the same
	byItself              // the server does so by itself, or has no use for it
)

var levels = []string{"left", "differs", "by itself"}

// finding is what is said of a directive.
type finding struct {
	at    *directive
	level level
	why   string
}

// report collects findings. What was said of a directive once is not said again, however many
// blocks it holds in.
type report struct {
	findings []finding
	said     map[saying]bool
}

type saying struct {
	at  *directive
	why string
}

func (r *report) say(d *directive, l level, why string) (first bool) {
	d.done = true
	if r.said == nil {
		r.said = make(map[saying]bool)
	}
	if r.said[saying{d, why}] {
		return false
	}
	r.said[saying{d, why}] = true
	r.findings = append(r.findings, finding{d, l, why})
	return true
}

// lines returns the findings in the order of the files, those of byItself only if all is true.
func (r *report) lines(all bool) (lines []string) {
	sorted := slices.Clone(r.findings)
	slices.SortStableFunc(sorted, func(a, b finding) int { return a.at.seq - b.at.seq })
	for _, f := range sorted {
		if f.level != byItself || all {
			lines = append(lines, fmt.Sprintf("%s:%d: %s: %s: %s", f.at.file, f.at.line, levels[f.level],
				f.at.text(), f.why))
		}
	}
	return lines
}

// count returns how many directives of a level there are.
func (r *report) count(l level) (n int) {
	seen := map[*directive]bool{}
	for _, f := range r.findings {
		if f.level == l && !seen[f.at] {
			seen[f.at] = true
			n++
		}
	}
	return n
}

// unguarded returns, in the order of the files, what was left of that by which nginx refuses
// requests.
func (r *report) unguarded() (lines []string) {
	var all []*directive
	for _, f := range r.findings {
		if f.level == left && refuses(f.at) && !slices.Contains(all, f.at) {
			all = append(all, f.at)
		}
	}
	slices.SortFunc(all, func(a, b *directive) int { return a.seq - b.seq })
	for _, d := range all {
		lines = append(lines, fmt.Sprintf("%s:%d: %s", d.file, d.line, d.text()))
	}
	return lines
}

// refuses reports whether a directive, or one within it, says who may come to what.
func refuses(d *directive) bool {
	switch d.name {
	case "deny", "internal", "limit_except", "auth_request", "auth_jwt",
		"ssl_client_certificate", "ssl_crl", "secure_link", "secure_link_md5", "secure_link_secret",
		"valid_referers":
		return d.arg(0) != "off"
	case "auth_basic", "auth_basic_user_file", "ssl_verify_client":
		return d.arg(0) != "off" && d.arg(0) != "optional_no_ca"
	case "return":
		return slices.Contains([]string{"401", "403", "404", "410", "444"}, d.arg(0))
	}
	return slices.ContainsFunc(d.block, refuses)
}

// comment returns a finding as a comment of the result.
func comment(d *directive, why string) string {
	return strings.TrimRight(fmt.Sprintf("%s:%d: %s: %s", d.file, d.line, d.text(), why), " ")
}

// String returns all lines.
func (r *report) String() string { return strings.Join(r.lines(true), "\n") }
