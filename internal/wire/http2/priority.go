package http2

import "bytes"

// DefaultUrgency is that of a stream whose client says nothing (RFC 9218 section 4.1). 0 is the
// most urgent, 7 the least.
const DefaultUrgency = 3

// ParsePriority parses a value of the Priority field or of a PRIORITY_UPDATE frame (RFC 9218
// section 4), a dictionary of structured fields. What is not understood is ignored. The client of
// an answer that is incremental uses it piece by piece.
func ParsePriority(value []byte) (urgency uint8, incremental bool) {
	urgency = DefaultUrgency
	for len(value) > 0 {
		member := value
		quoted := false
		i := 0
		for ; i < len(value) && (quoted || value[i] != ','); i++ {
			switch {
			case value[i] == '"':
				quoted = !quoted
			case quoted && value[i] == '\\':
				i++
			}
		}
		if i < len(value) {
			member, value = value[:i], value[i+1:]
		} else {
			value = nil
		}
		for len(member) > 0 && isSpace(member[0]) {
			member = member[1:]
		}
		if i := bytes.IndexAny(member, "; \t"); i >= 0 {
			member = member[:i]
		}
		switch text := string(member); { // the last one counts
		case len(text) == 3 && text[:2] == "u=" && '0' <= text[2] && text[2] <= '7':
			urgency = text[2] - '0'
		case text == "i", text == "i=?1":
			incremental = true
		case text == "i=?0":
			incremental = false
		}
	}
	return urgency, incremental
}
