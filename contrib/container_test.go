// Package contrib has the tests of what is beside the program.
package contrib

import (
	"bufio"
	"debug/elf"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestContainerfile: the commands of the description make a folder in which the entry point runs,
// as the user of the description, with nothing else there.
func TestContainerfile(t *testing.T) {
	ci.Root(t)
	ci.Without(t, race.Enabled, "the program of the image is the same one with the race detector")
	text := must.Read(t, "Containerfile")
	dir := t.TempDir()
	must.Do(t, os.Chmod(filepath.Dir(dir), 0o755))
	image := filepath.Join(dir, "image")
	must.Do(t, os.Mkdir(image, 0o755))
	for _, m := range regexp.MustCompile(`(?m)^RUN (.*)`).FindAllStringSubmatch(text, -1) {
		cmd := exec.Command("sh", "-ec", strings.ReplaceAll(m[1], "/image", image))
		cmd.Dir = ".."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", m[1], err, out)
		}
	}
	one := func(pattern string) string {
		t.Helper()
		m := regexp.MustCompile(`(?m)^` + pattern + `$`).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no %s", pattern)
		}
		return m[1]
	}
	entry := one(`ENTRYPOINT \["([^"]*)"\]`)
	args := strings.Split(strings.ReplaceAll(one(`CMD \[(.*)\]`), `"`, ""), ", ")
	if user := one(`USER (.*)`); user != "65532:65532" {
		t.Errorf("the user is %s", user)
	}

	program := must.Get(elf.Open(filepath.Join(image, entry)))(t)
	defer program.Close()
	if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("it is not static: %v, %v", libraries, err)
	}
	must.Do(t, os.WriteFile(filepath.Join(image, "www/index.html"), []byte("from the image"), 0o644))
	cmd := exec.Command(entry, append(args, "-l", "127.0.0.1:0")...)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image,
		Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	stderr := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	defer func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, stderr)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	listening := regexp.MustCompile(`msg=listening address=(\S+)`)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		m := listening.FindStringSubmatch(lines.Text())
		if m == nil {
			t.Log(lines.Text())
			continue
		}
		client := http.Client{Timeout: wait.Patience}
		defer client.CloseIdleConnections()
		resp := must.Get(client.Get("http://" + m[1] + "/"))(t)
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "from the image" {
			t.Errorf("%s, %v: %q", resp.Status, err, body)
		}
		return
	}
	t.Fatal("it does not listen")
}
