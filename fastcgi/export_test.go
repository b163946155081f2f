package fastcgi

// Printable is printable.
func Printable(text []byte) string { return printable(text) }
