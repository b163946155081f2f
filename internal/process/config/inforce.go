package config

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"

	"github.com/lwango/lwango/internal/base/settings"
)

// WriteInForce writes the settings in force, with those of the command line, as a configuration
// that reads as the same settings. It leaves out what a program does in code. It fails if the
// command line contradicts keys of the file, such as sites that name a listener which -l has
// replaced: then no text describes the settings.
func (c *Config) WriteInForce(w io.Writer, s Source) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "# %s, as it is in force. Relative paths begin in %q.\n",
		cmp.Or(c.File, "The built-in defaults"), c.Dir)
	replace := map[string]any{}
	if len(s.Listen) > 0 {
		var own []Listener // those of streams stand in their tables
		for _, l := range c.Listeners {
			if l.Stream != nil {
				continue
			}
			if l.Address.Network == "unix" { // a path on the command line begins in the working directory
				l.Listen = l.Address.String()
			}
			own = append(own, l)
		}
		replace["listener"] = own
	}
	if s.Root != "" {
		dir, err := filepath.Abs(s.Root)
		if err != nil {
			return err
		}
		replace["site"] = []map[string]any{{"route": []map[string]any{
			{"prefix": "/", "module": "serve_files", "path": settings.Literal(dir)}}}}
		replace["stream"] = nil
	}
	if err := c.text.WriteInForce(&text, replace); err != nil {
		return err
	}
	if len(replace) > 0 {
		s.Listen, s.Root = nil, ""
		if _, err := s.Parse(s.File, text.String()); err != nil {
			return fmt.Errorf("no configuration says what -l and -r leave of this one: %w", err)
		}
	}
	_, err := w.Write(text.Bytes())
	return err
}
