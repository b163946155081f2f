package repo_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
)

// command is a line of a README that runs a program of this repository.
var command = regexp.MustCompile(`(?m)^    .*\bgo run (\S+)(.*)$`)

// TestCommandsOfReadmes runs what the READMEs tell to run, from the repository's root: each program
// listens and serves what is its own, and not the folder of the lwango.conf there.
func TestCommandsOfReadmes(t *testing.T) {
	ci.Only(t, "builds all samples")
	ci.Without(t, race.Enabled, "builds all samples, which are the same ones with the race detector")
	files := must.Get(filepath.Glob("samples/*/README.md"))(t)
	page := must.Get(os.ReadFile("wwwroot/index.html"))(t)
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.conf")
	must.Write(t, empty, "")
	type call struct{ pkg, args string }
	var calls []call
	build := []string{"build", "-ldflags=-w", "-o", dir + "/"} // no debugger is for them
	for _, file := range append(files, "README.md") {
		if _, err := os.Stat(filepath.Join(filepath.Dir(file), "go.mod")); err == nil &&
			file != "README.md" {
			continue // a module of its own, whose tests run the program
		}
		text := must.Read(t, file)
		commands := command.FindAllStringSubmatch(text, -1)
		if len(commands) == 0 {
			t.Errorf("%s does not say how to run it", file)
		}
		for _, m := range commands {
			if strings.Contains(m[0], "cd ") || !strings.HasPrefix(m[1], "./") {
				t.Errorf("%s: not from the repository's root: %s", file, m[0])
				continue
			}
			calls = append(calls, call{m[1], m[2]})
			if !slices.Contains(build, m[1]) {
				build = append(build, m[1])
			}
		}
	}
	if out, err := exec.Command("go", build...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range calls {
		t.Run(c.pkg+c.args, func(t *testing.T) {
			t.Parallel()
			name := filepath.Base(c.pkg)
			if name == "php" {
				if found, _ := filepath.Glob("/usr/sbin/php-fpm*"); found == nil {
					t.Skip("no PHP-FPM is installed")
				}
			}
			program := filepath.Join(dir, name)
			args := strings.Fields(strings.TrimSuffix(strings.TrimSpace(c.args), "&"))
			if !slices.Contains(args, "-l") {
				args = append(args, "-l", "")
			}
			for i := range len(args) - 1 {
				switch args[i] {
				case "-l":
					args[i+1] = "127.0.0.1:0"
				case "-c":
					args[i+1] = empty
				case "-r":
					args[i+1] = "wwwroot"
				}
			}
			if name == "timers" { // no server
				if out, err := exec.Command(program).CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
				return
			}
			body, log := ask(t, exec.Command(program, args...), name != "echo")
			if own := name != "lwango" && name != "ring"; own == bytes.Equal(body, page) {
				t.Errorf("wwwroot is served: %v, want %v\n%s", own, !own, log)
			}
		})
	}
}

// ask starts a server, and asks it for / if it speaks HTTP. It ends in order.
func ask(t *testing.T, cmd *exec.Cmd, http1 bool) (body []byte, log string) {
	t.Helper()
	stderr := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	listening := regexp.MustCompile(`msg=listening address=(\S+)`)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		log += lines.Text() + "\n"
		m := listening.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		if http1 {
			body = get(t, "http://"+m[1]+"/")
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
	logtext.NoPanic(t, log)
	return body, log
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return body
}
