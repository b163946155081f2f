// Package nginx runs a real nginx for a test.
package nginx

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// Start starts an nginx until the test ends, and returns when it listens. config is what stands in
// its block http. DIR in it is a new folder, which Start returns; sockets are the names of the UNIX
// sockets there. Without nginx the test is left out (ci.Lacks).
func Start(t testing.TB, config string, sockets ...string) (dir string) {
	t.Helper()
	name, err := exec.LookPath("nginx")
	if err != nil {
		name = "/usr/sbin/nginx"
	}
	if _, err := os.Stat(name); err != nil {
		ci.Lacks(t, "nginx (Debian: apt-get install nginx-light)")
	}
	dir, err = os.MkdirTemp("", "nginx") // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config = strings.ReplaceAll(`
daemon off; master_process off; pid DIR/pid; error_log DIR/error.log;
events {}
http {
	access_log off;
	client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
`+config+`}`, "DIR", dir)
	file, log := filepath.Join(dir, "conf"), filepath.Join(dir, "error.log")
	must.Do(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.Command(name, "-p", dir, "-c", file, "-e", log)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("nginx: %.5000s", text)
		}
	})
	for _, socket := range sockets {
		wait.Until(t, "nginx listens", func() bool {
			c, err := net.Dial("unix", filepath.Join(dir, socket))
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
	return dir
}
