package repo_test

import (
	"archive/zip"
	"bytes"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
)

// TestGoInstall: `go install .../cmd/lwango@latest` makes the command, with its version, from a
// module proxy that has this module as the go command would pack it.
func TestGoInstall(t *testing.T) {
	ci.Only(t, "builds the command anew")
	ci.Without(t, race.Enabled, "builds a program, which is the same one with the race detector")
	const version = "v1.2.3"
	proxy := t.TempDir()
	at := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	must.Do(t, os.MkdirAll(at, 0o755))
	gomod := must.Get(os.ReadFile("go.mod"))(t)
	for name, text := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".mod": gomod,
		version + ".zip":  packed(t, module+"@"+version),
		version + ".info": []byte(`{"Version":"` + version + `","Time":"2026-01-01T00:00:00Z"}`),
	} {
		must.Do(t, os.WriteFile(filepath.Join(at, name), text, 0o644))
	}
	out := must.Get(exec.Command("go", "env", "GOMODCACHE").Output())(t)
	modules := strings.TrimSpace(string(out))
	fileURL := func(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }

	dir := t.TempDir()
	cmd := exec.Command("go", "install", "-modcacherw", module+"/cmd/lwango@latest")
	cmd.Dir = dir
	// The other modules come from the cache of the go command, which is a proxy, too. With these
	// flags, what contrib/deb builds is not compiled anew.
	cmd.Env = append(os.Environ(),
		"GOPROXY="+fileURL(proxy)+","+fileURL(filepath.Join(modules, "cache/download")), "GOSUMDB=off",
		"GOFLAGS=-mod=mod -trimpath -pgo=auto", "CGO_ENABLED=0", "GOWORK=off", "GOBIN="+dir,
		"GOMODCACHE="+filepath.Join(dir, "modules"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shown, err := exec.Command(filepath.Join(dir, "lwango"), "-v").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(shown), "lwango "+version+" go") {
		t.Errorf("%v, %s", err, shown)
	}
}

// TestGoInstallHasNoCgo: wherever a document tells to install the command, the command can confine
// itself afterwards.
func TestGoInstallHasNoCgo(t *testing.T) {
	const command = "go install " + module + "/cmd/lwango"
	named := 0
	for file, text := range documents(t) {
		for _, before := range strings.SplitAfter(text, command) {
			if before, ok := strings.CutSuffix(before, command); ok {
				if named++; !strings.HasSuffix(before, "CGO_ENABLED=0 ") {
					t.Errorf("%s: %q without CGO_ENABLED=0", file, command)
				}
			}
		}
	}
	if named == 0 {
		t.Error("no document says how to install the command")
	}
}

// packed is the module as a zip file: all of its folders but those of other modules.
func packed(t *testing.T, prefix string) []byte {
	t.Helper()
	var text bytes.Buffer
	w := zip.NewWriter(&text)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if path != "." && (err == nil || strings.HasPrefix(d.Name(), ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := w.Create(prefix + "/" + filepath.ToSlash(path))
		if err == nil {
			_, err = f.Write(data)
		}
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}
