package rfc9111

// MaxVaryNames is how many names Vary may have. An answer with more is not kept.
const MaxVaryNames = 16

// A Vary is what selects among the answers of one key (RFC 9111 section 4.1): names of fields in
// small letters, sorted, each once, with commas between them. "" is for answers that do not vary.
type Vary string

// VaryAny is "Vary: *", or of more names than MaxVaryNames: no second request is like the first.
const VaryAny Vary = "*"

// AppendKey appends what two requests have in common that get the same answer: the values of the
// fields that v names, in a form that is the same if the values mean the same. It allocates only to
// let dst grow.
func (v Vary) AppendKey(dst []byte, fields Fields) []byte { panic("soon") }

type varyNames struct{}

func (n *varyNames) add(value string) {}
func (n *varyNames) vary() Vary       { return "" }
