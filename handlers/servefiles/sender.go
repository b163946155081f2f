package servefiles

import (
	"net/http"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
)

// Sender sends files of a folder for handlers that choose the file themselves. It may be used on
// any number of loops at once.
type Sender struct{ m *module }

// NewSender opens the folder; see New. It uses the settings Path, FollowSymlinks, CacheControl,
// Types and OpenFiles.
func NewSender(s Settings, env handlers.Env) (*Sender, error) {
	m, err := open(s, env)
	if err != nil {
		return nil, err
	}
	return &Sender{m}, nil
}

// Send answers with the file of that name below the folder, hidden or not, and returns the status
// for the handler to return. That is the given one, with the whole file; if it is 200 and the
// method is GET or HEAD, conditions and ranges are obeyed, too. If the file cannot be sent, Send
// sets nothing, and the status says why.
//
// It keeps the header fields that are set, Content-Type included; the entity tag and the date are
// the file's.
func (s *Sender) Send(req *conn.Request, resp *conn.Response, name string,
	status int) (_ int, sent bool) {
	var space [usualName]byte
	path := append(space[:0], name...)
	f, failed := s.m.open(req.Loop(), path)
	switch failed {
	case 0:
	case isFolder:
		return http.StatusNotFound, false
	default:
		return failed, false
	}
	if method := req.Method(); status == http.StatusOK &&
		(method == http.MethodGet || method == http.MethodHead) {
		return s.m.answer(req, resp, f), true
	}
	s.m.whole(req, resp, f)
	return status, true
}
