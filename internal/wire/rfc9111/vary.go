package rfc9111

import (
	"bytes"
	"slices"
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// MaxVaryNames is how many names Vary may have. An answer with more is not kept.
const MaxVaryNames = 16

// A Vary is what selects among the answers of one key (RFC 9111 section 4.1): names of fields in
// small letters, sorted, each once, with commas between them. "" is for answers that do not vary.
type Vary string

// VaryAny is "Vary: *", or of more names than MaxVaryNames, or of text that is no name: no second
// request is like the first.
const VaryAny Vary = "*"

// What stands before the value of a field in a key, and what ends it. No value contains them.
const (
	absent  = 1
	present = 2
	endOf   = 0
)

// AppendKey appends what two requests have in common that get the same answer: the values of the
// fields that v names, in a form that is the same if the values mean the same. It allocates only to
// let dst grow.
//
// Lines of a field are joined, and white space around commas is dropped (section 4.1). Of the
// fields by which clients state preferences, the case of letters does not count either, nor does
// the order: what is preferred is said by q. But of languages, applications may take the first.
func (v Vary) AppendKey(dst []byte, fields Fields) []byte {
	for rest := string(v); rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, ",")
		value, next := fields.HeaderViewFrom(name, 0)
		if next < 0 {
			dst = append(dst, absent)
			continue
		}
		dst = append(dst, present)
		from := len(dst)
		for ; next > 0; value, next = fields.HeaderViewFrom(name, next) {
			if len(dst) > from {
				dst = append(dst, ',')
			}
			dst = appendElements(dst, value)
		}
		switch name {
		case "accept", "accept-charset", "accept-encoding":
			sortPreferences(dst[from:])
		case "accept-language":
			for i, c := range dst[from:] {
				dst[from+i] = ascii.Lower(c)
			}
		}
		dst = append(dst, endOf)
	}
	return dst
}

// appendElements appends a value without the white space around its commas, and without empty
// elements. Quoted strings stay as they are.
func appendElements(dst, value []byte) []byte {
	from := len(dst)
	quoted := false
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case quoted:
			if c == '\\' && i+1 < len(value) {
				dst = append(dst, c)
				i++
				c = value[i]
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == ',':
			dst = trimRight(dst, from)
			if len(dst) == from || dst[len(dst)-1] == ',' {
				continue
			}
		case (c == ' ' || c == '\t') && (len(dst) == from || dst[len(dst)-1] == ','):
			continue
		}
		dst = append(dst, c)
	}
	if !quoted {
		dst = trimRight(dst, from)
		if len(dst) > from && dst[len(dst)-1] == ',' {
			dst = dst[:len(dst)-1]
		}
	}
	return dst
}

// trimRight drops white space from the end of dst, but nothing before from.
func trimRight(dst []byte, from int) []byte {
	for len(dst) > from && (dst[len(dst)-1] == ' ' || dst[len(dst)-1] == '\t') {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// maxSorted is how many preferences are sorted. Longer lists keep their order; they are rare, and
// get a variant of their own.
const maxSorted = 24

// sortPreferences sorts the elements of a list in place, in small letters. The length stays. A list
// with quoted strings, in which commas mean something else, stays as it is.
func sortPreferences(list []byte) {
	if bytes.IndexByte(list, '"') >= 0 {
		return
	}
	for i, c := range list {
		list[i] = ascii.Lower(c)
	}
	var ends [maxSorted]int // where the elements end that are in order
	n := 0
	for from := 0; from < len(list); {
		end := from
		for end < len(list) && list[end] != ',' {
			end++
		}
		if n == maxSorted {
			return
		}
		ends[n] = end
		n++
		// Move the element to its place among those before it: each that is greater changes places
		// with it.
		for i := n - 1; i > 0; i-- {
			start := 0
			if i > 1 {
				start = ends[i-2] + 1
			}
			a, b := list[start:ends[i-1]], list[ends[i-1]+1:ends[i]]
			if string(a) <= string(b) {
				break
			}
			length := len(b)
			swap(list[start:ends[i]], len(a))
			ends[i-1] = start + length
		}
		from = end + 1
	}
}

// swap turns "a,b" into "b,a"; a is n bytes long.
func swap(pair []byte, n int) {
	slices.Reverse(pair[:n])
	slices.Reverse(pair[n+1:])
	slices.Reverse(pair)
}

// varyNames gathers the names in the lines of Vary.
type varyNames struct {
	names []string
	any   bool
}

func (n *varyNames) add(value string) {
	ascii.EachElement(value, func(name string) bool {
		if !http1.ValidToken(name) || name == "*" {
			n.any = true
			return false
		}
		name = ascii.ToLower(name)
		if at, found := slices.BinarySearch(n.names, name); !found {
			n.names = slices.Insert(n.names, at, name)
		}
		n.any = n.any || len(n.names) > MaxVaryNames
		return !n.any
	})
}

func (n *varyNames) vary() Vary {
	switch {
	case n.any:
		return VaryAny
	case len(n.names) == 0:
		return ""
	}
	return Vary(strings.Join(n.names, ","))
}
