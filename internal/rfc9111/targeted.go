package rfc9111

func newTargeted() *Response                 { return nil }
func (r *Response) addTargeted(value string) {}
func (r *Response) target(t *Response)       {}
