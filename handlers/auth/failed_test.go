package auth_test

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/auth"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

const filter = "../../contrib/fail2ban/lwango-auth.conf"

// TestFailedLogins: a wrong password is logged, in text and in JSON, in a form that the filter of
// fail2ban in contrib reads; what is no failed login is not.
func TestFailedLogins(t *testing.T) {
	for _, form := range []string{"text", "json"} {
		var log bytes.Buffer
		var h slog.Handler = slog.NewTextHandler(&log, nil)
		if form == "json" {
			h = slog.NewJSONHandler(&log, nil)
		}
		users := filepath.Join(t.TempDir(), "users")
		must.Do(t, os.WriteFile(users, []byte("ann:"+sha), 0o600))
		m := must.Get(auth.New(auth.Settings{Htpasswd: users}, handlers.Env{Logger: slog.New(h).With(
			"site", "a b", "route", "/x")}))(t)
		s := module.Start(t, modes.Plain, "/", m(func(*conn.Request, *conn.Response) int { return 204 }))
		for _, login := range []string{"", "ann:secret", "ann:wrong", "bob client=10.0.0.1:secret"} {
			var fields []string
			if login != "" {
				fields = []string{"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(login))}
			}
			s.Request("GET /", fields, "")
		}
		s.Stop(0)
		text := log.String()
		found := 0
		for line := range strings.Lines(text) {
			if m := failregex(t).FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				found++
				if addr := strings.Join(m[1:], ""); addr != "127.0.0.1" {
					t.Errorf("the address is %q", addr)
				}
			}
		}
		if found != 2 || strings.Contains(text, "bob") || strings.Contains(text, "wrong") {
			t.Errorf("%s: %d failed logins in\n%s", form, found, text)
		}
		if _, err := exec.LookPath("fail2ban-regex"); err != nil {
			ci.Lacks(t, "fail2ban-regex: Debian's package fail2ban")
		}
		lines := filepath.Join(t.TempDir(), "log")
		must.Do(t, os.WriteFile(lines, []byte(text), 0o600))
		out, err := exec.Command("fail2ban-regex", lines,
			must.Get(filepath.Abs(filter))(t)).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Failregex: 2 total") {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// failregex returns the expressions of the filter as one of Go.
func failregex(t *testing.T) *regexp.Regexp {
	t.Helper()
	text := string(must.Get(os.ReadFile(filter))(t))
	_, list, ok := strings.Cut(text, "\nfailregex = ")
	list, _, _ = strings.Cut(list, "\n\n")
	if !ok {
		t.Fatal("the filter has no failregex")
	}
	var all []string
	for line := range strings.Lines(list) {
		all = append(all, strings.ReplaceAll(strings.TrimSpace(line), "<ADDR>", `([0-9a-fA-F.:]+)`))
	}
	return regexp.MustCompile(strings.Join(all, "|"))
}
