package interop

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lwango/lwango/internal/test/must"
)

// TestSchema: the JSON Schema for editors takes the configurations that lwango takes, and refuses
// what an editor should mark.
func TestSchema(t *testing.T) {
	schema := must.Get(jsonschema.NewCompiler().Compile("../docs/use/lwango.schema.json"))(t)
	validate := func(text string) error {
		t.Helper()
		var tree map[string]any
		if _, err := toml.Decode(text, &tree); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		asJSON := must.Get(json.Marshal(tree))(t)
		value := must.Get(jsonschema.UnmarshalJSON(strings.NewReader(string(asJSON))))(t)
		return schema.Validate(value)
	}
	read := func(path string) string {
		t.Helper()
		text := must.Get(os.ReadFile(path))(t)
		return string(text)
	}

	whole := read("../lwango.conf")
	good := []string{whole, read("../samples/php/lwango.conf")}
	// The explanations of lwango.conf have keys that are commented out: each line of one of the lists
	// of keys, where it is a key by itself, is tried alone.
	top, _, _ := strings.Cut(whole, "\n[headers]")
	commented := regexp.MustCompile(`(?m)^# ([a-z_]+ = (?:"[^"]*"|\[[^\]]*\]|[a-z0-9]+))`)
	for _, m := range commented.FindAllStringSubmatch(top, -1) {
		good = append(good, m[1])
	}
	// What manuals show of sites.
	manuals := must.Get(filepath.Glob("../handlers/*/README.md"))(t)
	for _, path := range append(manuals, "../fastcgi/README.md", "../README.md") {
		for block := range strings.SplitSeq(read(path), "\n\n") {
			if strings.HasPrefix(block, "    [[site") {
				text := strings.ReplaceAll(block, "\n    ", "\n")[4:]
				if _, err := toml.Decode(text, new(map[string]any)); err == nil &&
					!strings.HasPrefix(text, "[[site.") {
					good = append(good, text)
				}
			}
		}
	}
	fenced := regexp.MustCompile("(?s)```toml\n(.*?)```")
	for _, m := range fenced.FindAllStringSubmatch(read("../docs/use/operate.md"), -1) {
		if !strings.HasPrefix(m[1], "[[site.") { // a part
			good = append(good, m[1])
		}
	}
	if len(good) < 20 {
		t.Errorf("%d configurations", len(good))
	}
	for _, text := range good {
		if err := validate(text); err != nil {
			t.Errorf("refused: %v\n%s", err, text)
		}
	}

	const route = "[[site]]\n[[site.route]]\nprefix = \"/\"\n"
	for _, text := range []string{
		"keep_alive_timout = \"15s\"", "grace = 5", "grace = \"5\"", "threads = -1", "threads = \"1\"",
		"max_body_size = \"16k\"", "handoff = \"iter\"", "[headers]\na = 1", "[[site]]\nhots = \"a\"",
		"[[listener]]\nadress = \"*:80\"", "[[site]]\nlimit = { methods = 1 }",
		route + "module = \"serve_file\"", route + "module = \"fastcgi\"\nindx = \"a\"",
		route + "module = \"redirect\"\nscript_path = \"a\"", route + "compression = 1",
	} {
		if validate(text) == nil {
			t.Errorf("taken:\n%s", text)
		}
	}
	for _, text := range []string{
		"grace = \"${GRACE}\"", "handoff = \"${HANDOFF}\"", "max_body_size = \"${file:size}\"",
		route + "module = \"serve_files\"\npath = \"x\"\ncompression = false", "site = { host = \"a\" }",
	} {
		if err := validate(text); err != nil {
			t.Errorf("refused: %v\n%s", err, text)
		}
	}
}
