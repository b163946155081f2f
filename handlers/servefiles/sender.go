package servefiles

import (
	"net/http"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
)

// Sender sends files of a folder for handlers that decide by themselves which. It may be used on any number of loops at
// once.
type Sender struct{ m *module }

// NewSender opens the folder; see New. Of the settings it is Path, FollowSymlinks, CacheControl and Types that matter.
func NewSender(s Settings, env handlers.Env) (*Sender, error) {
	m, err := open(s, env)
	if err != nil {
		return nil, err
	}
	return &Sender{m}, nil
}

// Send answers with the file of that name below the folder, hidden or not, and returns the status for the handler to
// return: the given one for the whole file; where that is 200 and the method GET or HEAD, also what conditions and ranges
// make of it. Where the file cannot be sent, nothing is set, and the status says why.
//
// Header fields that are set stay, Content-Type included; entity tag and date are the file's.
func (s *Sender) Send(req *conn.Request, resp *conn.Response, name string, status int) (_ int, sent bool) {
	var st unix.Stat_t
	var space [usualName]byte
	path := append(space[:0], name...)
	f, failed := s.m.open(path, &st)
	switch failed {
	case 0:
	case isFolder:
		return http.StatusNotFound, false
	default:
		return failed, false
	}
	facts := s.m.facts.get(path, &st, s.m.types)
	if method := req.Method(); status == http.StatusOK && (method == http.MethodGet || method == http.MethodHead) {
		return s.m.answer(req, resp, f, facts), true
	}
	s.m.whole(req, resp, f, facts)
	return status, true
}
