package http2

// DefaultUrgency is that of a stream whose client says nothing (RFC 9218 section 4.1). 0 is the most
// urgent, 7 the least.
const DefaultUrgency = 3

// Urgency returns the parameter u of a value of the Priority field or a PRIORITY_UPDATE frame (RFC 9218
// section 4), a dictionary of structured fields. What is not understood is ignored.
func Urgency(value []byte) uint8 {
	u := uint8(DefaultUrgency)
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
		if len(member) < 3 || member[0] != 'u' || member[1] != '=' || member[2] < '0' || member[2] > '7' {
			continue
		}
		if rest := member[3:]; len(rest) == 0 || rest[0] == ';' || isSpace(rest[0]) { // the last one counts
			u = member[2] - '0'
		}
	}
	return u
}
