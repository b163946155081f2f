package machine_test

import (
	"io"
	"net/http"
	"os"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
)

// TestConfinedFollowsReleases: a folder by way of a link is that to which the link leads now, and
// not that of the start.
func TestConfinedFollowsReleases(t *testing.T) {
	ci.Root(t)
	t.Parallel()
	j := newJail(t)
	for _, release := range []string{"1", "2"} {
		must.Do(t, os.MkdirAll(j.in("app/releases/"+release), 0o755))
		j.write("app/releases/"+release+"/file.txt", "release "+release)
	}
	turn := func(release string) {
		t.Helper()
		err := os.Symlink("releases/"+release, j.in("app/next"))
		if err == nil {
			err = os.Rename(j.in("app/next"), j.in("app/current"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	turn("1")
	j.write("etc/lwango.conf", `
[confine]
user = "65534"
group = "65534"
[[listener]]
address = "127.0.0.1:0"
[[site]]
[[site.route]]
prefix = "/"
module = "serve_files"
path = "../app/current"
`)
	address := j.start(1)[0]
	serves := func(want string) {
		t.Helper()
		answer := must.Get(http.Get("http://" + address + "/file.txt"))(t)
		defer answer.Body.Close()
		got, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != 200 || string(got) != want {
			t.Errorf("%d %q, %v, want %q", answer.StatusCode, got, err, want)
		}
	}
	serves("release 1")
	turn("2")
	j.signal(syscall.SIGHUP)
	j.says("msg=reloaded", 1)
	serves("release 2")
}
