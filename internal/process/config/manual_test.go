package config_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/process/config"
)

// TestManualsOfModules: the table of settings in a module's README.md has each key of its settings
// once, and tells the truth about the defaults.
func TestManualsOfModules(t *testing.T) {
	folders := map[string]string{
		"fastcgi": "fastcgi", "proxy": "handlers/proxy", "redirect": "handlers/redirect",
		"response": "handlers/response", "serve_files": "handlers/servefiles", "health": "handlers/health",
		"scgi": "handlers/scgi", "uwsgi": "handlers/uwsgi",
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([^|]*) \\|")
	code := regexp.MustCompile("^`([^`]*)`$")
	modules := config.Builtin()
	for _, name := range modules.ModuleNames() {
		module, _ := modules.Module(name)
		readme, err := os.ReadFile(filepath.Join("../../..", folders[name], "README.md"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, table, _ := strings.Cut(string(readme), "\n## Settings\n")
		table, _, _ = strings.Cut(table, "\n## ")
		var keys []string
		for _, m := range row.FindAllStringSubmatch(table, -1) {
			keys = append(keys, m[1])
			toml := code.FindStringSubmatch(m[2]) // a default in words is not compared
			if toml == nil {
				continue
			}
			file := settings.Parse("README.md", ".", m[1]+" = "+toml[1])
			shown := module.NewSettings()
			file.Root().Decode(shown)
			if diff := cmp.Diff(module.NewSettings(), shown, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: the default of %s (-program +README.md):\n%s", name, m[1], diff)
			}
			// zero may be out of range
			if err := file.Err(); err != nil && !strings.Contains(err.Error(), "must be") {
				t.Errorf("%s: %v", name, err)
			}
		}
		want := settings.Keys(module.NewSettings())
		slices.Sort(want)
		slices.Sort(keys)
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Errorf("%s: keys (-program +README.md):\n%s", name, diff)
		}
	}
}
