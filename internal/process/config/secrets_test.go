package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// TestErrorsHideSecrets: what a string has taken from a file is in no message about that string.
func TestErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	must.Write(t, secret, "pass\"wörd\n")
	for _, text := range []string{
		"[[listener]]\naddress = \"${file:secret}\"",
		"[[listener]]\naddress = \"127.0.0.1:1${file:secret}\"",
		"keep_alive_timeout = \"${file:secret}\"",
		route("prefix = \"/\"\nmodule = \"${file:secret}\""),
		route("prefix = \"/\"\nmodule = \"proxy\"\naddress = \"${file:secret}\""),
		"threads = \"${file:secret}\"",
		"threads = \"a text that is in front of the ${file:secret}\"", // which a long one is cut in
	} {
		_, err := source().Parse(filepath.Join(dir, "t.conf"), text)
		if err == nil || strings.Contains(err.Error(), "wörd") ||
			strings.Contains(err.Error(), "pass\\") || !strings.Contains(err.Error(), "${file:"+secret+"}") {
			t.Errorf("%s: %v, want the reference in the place of the text", text, err)
		}
	}
}

// TestErrorsHidePartsOfSecrets: no message about a key with a secret has a part of that, whatever
// the key makes of its text.
func TestErrorsHidePartsOfSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "t.conf")
	const mark = "Q7Z9"
	wrong := 0
	for j, text := range []string{mark, mark + "a:" + mark + "b:" + mark + "c",
		strings.Repeat(mark, 30),
		"redis://user:x/" + mark + "@host", "http://u:" + mark + "@127.0.0.1:" + mark + "/{" + mark + "}",
		"~(" + mark, "{" + mark + "}",
		mark + " " + mark + "," + mark, "-" + mark + "*.[" + mark, "unix:" + mark + "\x01/../" + mark,
		strings.Repeat("x", 38) + mark,
		"a" + mark + "=" + mark + ";" + mark, "%zz" + mark + "?" + mark, "${" + mark + "}",
		mark + ".example.*"} {
		must.Write(t, filepath.Join(dir, "secret"), text+"\n")
		for n, at := range allSpots() {
			if !inTurn(n, j) {
				continue
			}
			for i, taken := range []any{"x", []any{"x"}, map[string]any{"x": "x"}} {
				if !takes(at.typ, taken) && text != mark {
					continue // once is enough for what is of the wrong type
				}
				value := []string{`"${file:secret}"`, `["${file:secret}"]`, `{ x = "${file:secret}" }`}[i]
				_, err := source().Parse(file, at.before+at.key+" = "+value+"\n")
				if err == nil {
					continue
				}
				wrong++
				if strings.Contains(strings.ToUpper(err.Error()), mark) {
					t.Errorf("%s of %q: %v", value, text, err)
				}
			}
		}
	}
	if wrong < 1000 {
		t.Errorf("only %d errors", wrong)
	}
}
