package placeholder

import (
	"net/netip"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/upstream"
)

// append appends the value for a request. What is looked up stands in out meanwhile.
func (t *table) append(out []byte, q Asked) []byte {
	begin := len(out)
	if t.networks != nil && len(t.from) == 1 && t.from[0].kind == kindAddress {
		return t.valueOf(q).append(out, q, nil)
	}
	out = t.from.append(out, q, nil)
	key := out[begin:]
	if t.folds {
		lower(key)
	}
	r, p := t.find(key)
	if r.text == nil {
		return append(out[:begin], r.source...)
	}
	end := len(out)
	if p != nil && p.groups {
		out = p.append(out, key, q)
	} else {
		out = r.text.append(out, q, nil)
	}
	return append(out[:begin], out[end:]...)
}

// valueOf returns the value for the client's address.
func (t *table) valueOf(q Asked) *result {
	if r, ok := t.networks.Find(q.RemoteAddr().Addr()); ok {
		return r
	}
	return t.fallback
}

func (r *result) append(out []byte, q Asked, groups [][]byte) []byte {
	if r.text == nil {
		return append(out, r.source...)
	}
	return r.text.append(out, q, groups)
}

// find returns the value for a text, and the expression that has matched; nil: none has.
func (t *table) find(key []byte) (*result, *pattern) {
	switch {
	case t.split != nil:
		at := upstream.Fraction(upstream.AppendHash(0, key))
		for i := range t.split {
			if at < t.split[i].upto {
				return t.split[i].value, nil
			}
		}
		return t.fallback, nil
	case t.networks != nil:
		a, err := netip.ParseAddr(string(key))
		if err == nil || string(key) == "unix:" {
			if r, ok := t.networks.Find(a); ok {
				return r, nil
			}
		}
		return t.fallback, nil
	}
	if r, ok := t.exact[string(key)]; ok {
		return r, nil
	}
	for _, n := range t.ends.lengths {
		if n <= len(key) {
			if r, ok := t.ends.of[string(key[len(key)-n:])]; ok {
				return r, nil
			}
		}
	}
	for _, n := range t.begins.lengths {
		if n <= len(key) {
			if r, ok := t.begins.of[string(key[:n])]; ok {
				return r, nil
			}
		}
	}
	for i := range t.regexps {
		if p := &t.regexps[i]; p.re.Match(key) {
			return p.value, p
		}
	}
	return t.fallback, nil
}

// append appends the value for a text that the expression matches.
func (p *pattern) append(out, key []byte, q Asked) []byte {
	found := p.re.FindSubmatchIndex(key)
	groups := make([][]byte, 0, 8)
	for i := 2; i+1 < len(found); i += 2 {
		var group []byte
		if found[i] >= 0 {
			group = key[found[i]:found[i+1]]
		}
		groups = append(groups, group)
	}
	return p.value.text.append(out, q, groups)
}

func lower(b []byte) {
	for i, c := range b {
		b[i] = ascii.Lower(c)
	}
}
