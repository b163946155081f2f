package auth_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/auth"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
	"golang.org/x/crypto/bcrypt"
)

// whoami tells the user.
func whoami(req *conn.Request, resp *conn.Response) int {
	resp.WriteString("user " + req.User() + " " + req.AuthType() + req.Header().Get("Authorization"))
	return 200
}

// site is a server behind a file.
type site struct {
	*server.Server
	t    *testing.T
	file string
	log  *logtext.Buffer
}

func start(t *testing.T, m modes.Mode, text string) *site {
	t.Helper()
	s := &site{t: t, file: filepath.Join(t.TempDir(), "users"), log: new(logtext.Buffer)}
	s.write(text)
	mw := must.Get(auth.New(auth.Settings{Realm: `a "b" \ ü`, Htpasswd: "users"}, handlers.Env{
		Dir: filepath.Dir(s.file), Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	}))(t)
	s.Server = module.Start(t, m, "/", mw(whoami))
	return s
}

func (s *site) write(text string) {
	s.t.Helper()
	// A new file under the old name, as careful editors do it.
	must.Write(s.t, s.file+".new", text)
	must.Do(s.t, os.Rename(s.file+".new", s.file))
}

func basic(credentials string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(credentials))
}

// try returns what comes of credentials: the user, or the status.
func (s *site) try(credentials string) string {
	a := s.Request("GET /", []string{basic(credentials)}, "")
	if a.StatusCode == 200 {
		return a.Text
	}
	return fmt.Sprint(a.StatusCode)
}

func hashed(t *testing.T, name, password string) string {
	h := must.Get(bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost))(t)
	return name + ":" + string(h) + "\n"
}

func TestBasic(t *testing.T) {
	text := hashed(t, "ann", "se:cret") + "bob:" + apr1 + "\nc:" + sha + "\n" + hashed(t, "Änn", "ü")
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := start(t, m, text)
		for field, want := range map[string]string{
			basic("ann:se:cret"): "user ann Basic",
			basic("bob:secret"):  "user bob Basic",
			basic("c:secret"):    "user c Basic",
			basic("Änn:ü"):       "user Änn Basic",
			strings.Replace(basic("c:secret"), "Basic ", "bASIC   ", 1): "user c Basic",
			basic("ann:secret"):  "401",
			basic("ann:"):        "401",
			basic("ann"):         "401",
			basic(":se:cret"):    "401",
			basic("eve:secret"):  "401",
			basic("Ann:se:cret"): "401",
			"Authorization: Basic " + strings.Repeat("A", 5000): "401",
			"Authorization: Basic !":                            "401",
			"Authorization: Basic":                              "401",
			"Authorization: Bearer YW5uOnNlOmNyZXQ=":            "401",
			"X: y":                                              "401",
		} {
			for range 2 { // verified, and known
				a := s.Request("GET /", []string{field}, "")
				got := a.Text
				if a.StatusCode != 200 {
					got = fmt.Sprint(a.StatusCode)
				}
				challenge := a.Header.Get("WWW-Authenticate")
				if got != want || (want == "401") != (challenge != "") {
					t.Errorf("%s: %s, %q, want %s", field, got, challenge, want)
				}
				if challenge != "" && challenge != `Basic realm="a \"b\" \\ ü", charset="UTF-8"` {
					t.Errorf("%s", challenge)
				}
			}
		}
	})
}

func TestProved(t *testing.T) {
	for d, want := range map[time.Duration]bool{
		0: true, auth.ProvedFor() - 1: true, auth.ProvedFor(): false,
	} {
		if known, fresh, others := auth.Proved(d); !known || fresh != want || others {
			t.Errorf("after %v: %v, %v, others %v", d, known, fresh, others)
		}
	}
}

// TestChanges: the file counts as it is, and if it is wrong, as it was.
func TestChanges(t *testing.T) {
	auth.CheckAlways(t)
	auth.Meant(t, 0)
	s := start(t, modes.Several, hashed(t, "ann", "old"))
	check := func(when string, want map[string]string, logged string) {
		t.Helper()
		for credentials, want := range want {
			if got := s.try(credentials); got != want {
				t.Errorf("%s: %s: %s, want %s", when, credentials, got, want)
			}
		}
		if log := s.log.String(); !strings.Contains(log, logged) ||
			logged == "" && strings.Contains(log, "the file") { // failed logins are logged, too
			t.Errorf("%s: log %q, want %q", when, log, logged)
		}
		s.log.Reset()
	}
	ann, anew := "user ann Basic", map[string]string{"ann:old": "401", "ann:new": "user ann Basic"}
	check("at first", map[string]string{"ann:old": ann, "ann:new": "401"}, "")
	s.write(hashed(t, "ann", "new"))
	check("changed", anew, "the file was read again")
	s.write("ann:plain\n")
	check("malformed", anew, s.file+":1: ")
	check("still malformed", anew, "")
	must.Do(t, os.Remove(s.file))
	check("removed", anew, "no such file")
	must.Do(t, syscall.Mkfifo(s.file, 0o600))
	check("a FIFO", anew, "is no regular file")
	s.write("")
	check("empty", map[string]string{"ann:old": "401", "ann:new": "401"}, "users=0")
	s.write(hashed(t, "ann", "last"))
	check("good again", map[string]string{"ann:last": ann, "ann:new": "401"}, "users=1")
}

// TestEmptied: a file that a program is about to write anew locks nobody out meanwhile.
func TestEmptied(t *testing.T) {
	auth.CheckAlways(t)
	auth.Meant(t, time.Hour)
	s := start(t, modes.Direct, hashed(t, "ann", "old"))
	for _, row := range []struct{ text, old, new string }{
		{"", "user ann Basic", "401"},
		{"\n# users\n", "user ann Basic", "401"},
		{hashed(t, "ann", "new"), "401", "user ann Basic"},
	} {
		s.write(row.text)
		if before, after := s.try("ann:old"), s.try("ann:new"); before != row.old || after != row.new {
			t.Errorf("%q: %s, %s", row.text, before, after)
		}
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good": "ann:" + sha, "bad": "\nann:x"} {
		must.Write(t, filepath.Join(dir, name), text)
	}
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	for _, test := range []struct {
		set  auth.Settings
		key  string
		want string
	}{
		{auth.Settings{}, "htpasswd", "missing; expected the path of a file"},
		{auth.Settings{Htpasswd: "none"}, "htpasswd",
			"open " + dir + "/none: no such file or directory"},
		{auth.Settings{Htpasswd: "."}, "htpasswd", dir + " is no regular file"},
		{auth.Settings{Htpasswd: "fifo"}, "htpasswd", dir + "/fifo is no regular file"},
		{auth.Settings{Htpasswd: "bad"}, "htpasswd", dir + `/bad:2: user "ann": the password is ` +
			"plain, or hashed by DES; bcrypt (which htpasswd -B makes), argon2, yescrypt, $6$, $5$, " +
			"$1$, APR1 and {SHA} are"},
		{auth.Settings{Htpasswd: "good", Realm: "a\nb"}, "realm",
			"control characters cannot be part of it"},
	} {
		_, err := auth.New(test.set, handlers.Env{Dir: dir})
		var bad *handlers.KeyError
		if !errors.As(err, &bad) || bad.Key != test.key || bad.Err.Error() != test.want {
			t.Errorf("got  %v\nwant %s: %s", err, test.key, test.want)
		}
	}
}

// TestCost: a request of a user who has passed before allocates nothing.
func TestCost(t *testing.T) {
	ci.Without(t, race.Enabled, "sync.Pool drops things at random under the race detector")
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "users"), "ann:"+sha)
	mw := must.Get(auth.New(auth.Settings{Htpasswd: "users"}, handlers.Env{Dir: dir}))(t)
	guarded := mw(func(*conn.Request, *conn.Response) int { return 200 })
	s := module.Start(t, modes.Direct, "/", func(req *conn.Request, resp *conn.Response) int {
		if status := guarded(req, resp); status != 200 {
			return status
		}
		fmt.Fprint(resp, testing.AllocsPerRun(100, func() { guarded(req, resp) }))
		return 200
	})
	if a := s.Request("GET /", []string{basic("ann:secret")}, ""); a.Text != "0" {
		t.Errorf("%s, %q allocations", a.Status, a.Text)
	}
}
