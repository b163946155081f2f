package config

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"

	"github.com/lwango/lwango/internal/settings"
)

// WriteInForce writes the settings that are in force, with those of the command line, as a
// configuration that is read to the same settings. What a program does in code is not among them.
func (c *Config) WriteInForce(w io.Writer, s Source) error {
	_, err := fmt.Fprintf(w, "# %s, as it is in force. Relative paths begin in %q.\n",
		cmp.Or(c.File, "The built-in defaults"), c.Dir)
	if err != nil {
		return err
	}
	replace := map[string]any{}
	if len(s.Listen) > 0 {
		replace["listener"] = c.Listeners
	}
	if s.Root != "" {
		dir, err := filepath.Abs(s.Root)
		if err != nil {
			return err
		}
		replace["site"] = []map[string]any{{"route": []map[string]any{
			{"prefix": "/", "module": "serve_files", "path": settings.Literal(dir)}}}}
	}
	return c.text.WriteInForce(w, replace)
}
