package accesslog

import (
	"net/netip"
	"unicode/utf8"
)

// All text of a line goes through one of three functions: appendEscaped, for the formats of one
// line, appendString, for those in JSON, and appendRemote. So does text that seems to need no
// escapes: it may change who can write into a field, and nobody looks for a line that a client has
// forged.

// appendEscaped appends text with \xHH for all bytes but those of plain, at most limit bytes: a
// longer text ends in cutMark.
func appendEscaped[T string | []byte](b []byte, text T, plain *[256]bool, limit int) []byte {
	const hex = "0123456789ABCDEF"
	cut := newCut(b, limit)
	for from := 0; ; {
		i := from
		for i < len(text) && plain[text[i]] {
			i++
		}
		b = append(b, text[from:i]...)
		if i == len(text) || cut.reached(b) {
			return cut.end(b)
		}
		c, begin := text[i], len(b)
		b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		cut.keepTogether(begin, len(b))
		from = i + 1
	}
}

func appendOrDash[T string | []byte](b []byte, text T, limit int) []byte {
	if len(text) == 0 {
		return append(b, '-')
	}
	return appendEscaped(b, text, &plainText, limit)
}

// appendRemote appends the address of a client, in the form of all formats. It leaves out a zone
// that is no name of an interface: an address in a header field may have any zone.
func appendRemote(b []byte, remote netip.AddrPort) []byte {
	if !remote.IsValid() {
		return append(b, "unix:"...) // as nginx calls clients of a UNIX socket
	}
	addr := remote.Addr()
	if zone := addr.Zone(); zone != "" && !isInterface(zone) {
		addr = addr.WithZone("")
	}
	return addr.AppendTo(b)
}

// isInterface reports whether name can be that of an interface, with nothing to escape in it.
func isInterface(name string) bool {
	const longest = 15 // netdevice(7), IFNAMSIZ
	for i := range len(name) {
		if c := name[i]; !plainWord[c] || c == '%' {
			return false
		}
	}
	return len(name) <= longest
}

// appendMember is appendString, unless the text is empty.
func appendMember[T string | []byte](b []byte, name string, text T, limit int) []byte {
	if len(text) == 0 {
		return b
	}
	return appendString(b, name, text, limit)
}

// appendString appends a member of a JSON object whose value is a text. Bytes that are not UTF-8
// become U+FFFD: JSON has no other way (RFC 8259 section 8.1). A value of more than limit bytes, as
// escaped, ends in cutMark.
func appendString[T string | []byte](b []byte, name string, text T, limit int) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':', '"')
	const hex = "0123456789abcdef"
	cut := newCut(b, limit)
	for from := 0; ; {
		i := from
		for i < len(text) && plainText[text[i]] {
			i++
		}
		b = append(b, text[from:i]...)
		if i == len(text) || cut.reached(b) {
			return append(cut.end(b), '"')
		}
		begin := len(b)
		from = i + 1
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < utf8.RuneSelf: // a control character
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			r, n := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
			if 0x80 <= r && r < 0xa0 { // a control character, also to a terminal
				b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
			} else {
				b = utf8.AppendRune(b, r)
			}
			from = i + n
		}
		cut.keepTogether(begin, len(b))
	}
}

// plainText has the bytes that need no escape in any format.
var plainText = func() (t [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// plainWord is the same for a word that ends at a space.
var plainWord = func() [256]bool {
	t := plainText
	t[' '] = false
	return t
}()
