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
	} {
		_, err := source().Parse(filepath.Join(dir, "t.conf"), text)
		if err == nil || strings.Contains(err.Error(), "wörd") || strings.Contains(err.Error(), "pass\\") ||
			!strings.Contains(err.Error(), "${file:"+secret+"}") {
			t.Errorf("%s: %v, want the reference in the place of the text", text, err)
		}
	}
}
