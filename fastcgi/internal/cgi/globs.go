package cgi

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Globs choose names of scripts. The zero value chooses all of them. It does not change.
type Globs []glob

type glob struct {
	out      bool     // what matches is taken out
	segments []string // "**" stands for any number
}

// ParseGlobs reads patterns. "*" stands for any characters of a segment, also none, "?" for one of
// them, and a segment "**" for any number of segments, also none. Case matters. A pattern without a
// slash is for a segment, wherever it is. One with "!" in front takes out what it matches; if such
// a pattern is the first, all other names are in.
func ParseGlobs(patterns []string) (Globs, error) {
	if len(patterns) == 1 && patterns[0] == "/**" {
		return nil, nil // the default, which should cost a request nothing
	}
	var all Globs
	for _, text := range patterns {
		pattern, out := strings.CutPrefix(text, "!")
		if err := checkGlob(pattern); err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if pattern[0] != '/' {
			pattern = "/**/" + pattern + "/**"
		}
		all = append(all, glob{out, strings.Split(pattern[1:], "/")})
	}
	return all, nil
}

func checkGlob(pattern string) error {
	switch {
	case pattern == "":
		return errors.New("an empty pattern matches nothing")
	case strings.ContainsAny(pattern, `[]{}\`):
		return errors.New("a pattern knows *, ** and ?; write several patterns for more")
	case pattern[0] != '/' && strings.Contains(pattern, "/"):
		return fmt.Errorf("a pattern with a slash in it begins with one (/%s), "+
			`or with "/**/" for any folder`, pattern)
	}
	for segment := range strings.SplitSeq(pattern, "/") {
		if segment != "**" && strings.Contains(segment, "**") {
			return errors.New(`** stands between slashes, as in "/data/**"`)
		}
	}
	return nil
}

// Match reports whether name, which begins with a slash, is chosen: the last pattern that matches
// it decides. It needs little stack, since the thread of the request keeps what it has needed.
func (g Globs) Match(name string) bool {
	for i := len(g) - 1; i >= 0; i-- {
		if g[i].match(name) {
			return !g[i].out
		}
	}
	return len(g) == 0 || g[0].out
}

// match compares segments. What stands between two "**" fits at its first place if it fits at all,
// so only the last "**" is gone back to.
func (g *glob) match(name string) bool {
	at, last := 0, -1
	from := "" // what follows the segments that the last "**" stands for so far
	for {
		switch {
		case at < len(g.segments) && g.segments[at] == "**":
			last, from = at, name
			at++
			continue
		case at < len(g.segments) && name != "":
			segment, rest := cutSegment(name)
			if wildcards(g.segments[at], segment) {
				name = rest
				at++
				continue
			}
		case at == len(g.segments) && name == "":
			return true
		}
		if last < 0 || from == "" {
			return false
		}
		_, from = cutSegment(from)
		name, at = from, last+1
	}
}

// cutSegment splits "/a/b" into "a" and "/b".
func cutSegment(path string) (segment, rest string) {
	if i := strings.IndexByte(path[1:], '/'); i >= 0 {
		return path[1 : i+1], path[i+1:]
	}
	return path[1:], ""
}

// wildcards reports whether a pattern of one segment stands for all of s. Of the stars, too, only
// the last is gone back to.
func wildcards(pattern, s string) bool {
	last, from := "", "" // behind the last star, and what follows that which it stands for so far
	star := false
	for {
		switch {
		case pattern != "" && pattern[0] == '*':
			pattern = pattern[1:]
			star, last, from = true, pattern, s
			continue
		case pattern != "" && s != "" && pattern[0] == '?':
			pattern, s = pattern[1:], s[firstLen(s):]
			continue
		case pattern != "" && s != "" && pattern[0] == s[0]:
			pattern, s = pattern[1:], s[1:]
			continue
		case pattern == "" && s == "":
			return true
		}
		if !star || from == "" {
			return false
		}
		from = from[firstLen(from):]
		pattern, s = last, from
	}
}

// firstLen returns the length of the first character of s in bytes.
func firstLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}
