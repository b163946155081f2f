// Reference writes what describes the configuration and the command: the page
// docs/use/reference.md, the manual pages, the JSON Schema for editors, and completion for shells.
// Run it by go generate in this folder after a key or a flag has changed; a test fails until then.
//
//	main.go    which files are written
//	keys.go    the keys, from the structs of settings, their comments, and the manuals of modules
//	pages.go   docs/use/reference.md, lwango.conf(5), lwango(1)
//	schema.go  the JSON Schema
//	shells.go  completion for shells
//
// The text of a key is the comment of its field. That of a module's key is the one in the module's
// manual, which is the longer one, and which a test compares with the module.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

//go:generate go run . ../../..

func main() {
	root := os.Args[1]
	files, err := generate(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o777)
		if err == nil {
			err = os.WriteFile(path, []byte(files[name]), 0o666)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// generate returns the texts of the files, by their paths below root.
func generate(root string) (map[string]string, error) {
	tables, err := read(root)
	if err != nil {
		return nil, err
	}
	command := readUsage()
	return map[string]string{
		"docs/use/reference.md":          page(tables),
		"docs/use/lwango.schema.json":    schema(tables),
		"contrib/man/lwango.conf.5":      confManual(tables),
		"contrib/man/lwango.1":           commandManual(command),
		"contrib/completion/lwango.bash": bash(command),
		"contrib/completion/_lwango":     zsh(command),
		"contrib/completion/lwango.fish": fish(command),
	}, nil
}
