package auth

import (
	"net/http"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/template"
)

// login is where a client logs in that may not pass.
type login struct {
	to       *placeholder.Address
	captures []string // of the template: the address that was asked for, then fields of the answer
}

// urlCapture is the placeholder for the address that the client has asked for; answerCapture begins
// those for fields of the answer that does not let it pass.
const (
	urlCapture    = "url"
	answerCapture = "answer."
)

// readLogin reads the key `login`; nil: there is none. The error is a *handlers.KeyError.
func readLogin(s *Settings, texts *placeholder.Maps) (*login, error) {
	if s.Login == "" {
		return nil, nil
	}
	if s.WholeAnswer {
		return nil, handlers.BadKey("login", "is in place of whole_answer; expected one of them")
	}
	l := &login{captures: []string{urlCapture}}
	for rest := s.Login; ; {
		_, after, there := strings.Cut(rest, "{"+answerCapture)
		name, after, closed := strings.Cut(after, "}")
		if !there || !closed {
			break
		}
		if err := handlers.CheckField(name); err != nil {
			return nil, handlers.BadKey("login", "{%s%s}: %w", answerCapture, name, err)
		}
		l.captures, rest = append(l.captures, answerCapture+name), after
	}
	var err error
	if l.to, err = texts.ParseAddress(s.Login, l.captures); err != nil {
		return nil, handlers.BadKey("login", "%w", err)
	}
	return l, nil
}

// fits reports whether there is a place to log in for the request, which may have no host, or one
// of dots.
func (l *login) fits(req *conn.Request) bool {
	return l != nil && req.Host() != "" && l.address(req, nil) != ""
}

// send sends the client there, with the cookies of the answer. What it goes there with is a GET,
// whatever it has asked with (RFC 9110 section 15.4.4).
func (l *login) send(req *conn.Request, resp *conn.Response, answer *conn.Header) int {
	for _, value := range answer.Values("Set-Cookie") {
		resp.Header().Add("Set-Cookie", strings.Clone(value))
	}
	resp.Header().Set("Location", l.address(req, answer))
	if m := req.Method(); m != http.MethodGet && m != http.MethodHead {
		return http.StatusSeeOther
	}
	return http.StatusFound
}

// address returns where the client is sent; "": nowhere. answer may be nil.
func (l *login) address(req *conn.Request, answer *conn.Header) string {
	from := placeholder.Source(req)
	from.Captures = []template.Part{{Text: urlOf(req, string(req.Layer().OriginalTargetView()))}}
	for _, name := range l.captures[1:] {
		value := ""
		if answer != nil {
			value = answer.Get(name[len(answerCapture):])
		}
		from.Captures = append(from.Captures, template.Part{Text: value})
	}
	t := l.to.Choose(req.Layer(), from)
	if t == nil || !t.Fits(from.Host) {
		return ""
	}
	return t.Expand(from)
}
