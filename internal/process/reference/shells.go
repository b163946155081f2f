package main

import (
	"fmt"
	"strings"

	"github.com/lwango/lwango/internal/process/server"
)

// bash completes flags, subcommands, files behind -c, and folders behind -r.
func bash(c command) string {
	var names []string
	for _, o := range c.flags {
		names = append(names, o.name)
	}
	names = append(names, server.Subcommands...)
	return "# " + notice + `
_lwango() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
	COMPREPLY=()
	case $prev in
` + bashValues(c) + `	*) mapfile -t COMPREPLY < <(compgen -W '` + strings.Join(names, " ") + `' -- "$cur") ;;
	esac
}
complete -o filenames -F _lwango lwango
`
}

func bashValues(c command) string {
	var b strings.Builder
	for _, o := range c.flags {
		switch o.value {
		case "":
		case "FILE":
			fmt.Fprintf(&b, "\t%s) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n", o.name)
		case "ROOT":
			fmt.Fprintf(&b, "\t%s) mapfile -t COMPREPLY < <(compgen -d -- \"$cur\") ;;\n", o.name)
		default:
			fmt.Fprintf(&b, "\t%s) ;;\n", o.name)
		}
	}
	return b.String()
}

func zsh(c command) string {
	var b strings.Builder
	b.WriteString("#compdef lwango\n# " + notice + "\n_arguments")
	escape := strings.NewReplacer("'", `'\''`, "[", `\[`, "]", `\]`, ":", `\:`)
	for _, o := range c.flags {
		fmt.Fprintf(&b, " \\\n\t'%s[%s]", o.name, escape.Replace(o.text))
		switch o.value {
		case "":
		case "FILE":
			b.WriteString(":file:_files")
		case "ROOT":
			b.WriteString(":folder:_files -/")
		default:
			b.WriteString(":" + strings.ToLower(o.value) + ":")
		}
		b.WriteString("'")
	}
	fmt.Fprintf(&b, " \\\n\t'1:command:(%s)'\n", strings.Join(server.Subcommands, " "))
	return b.String()
}

func fish(c command) string {
	var b strings.Builder
	b.WriteString("# " + notice + "\n")
	escape := strings.NewReplacer(`\`, `\\`, "'", `\'`)
	for _, o := range c.flags {
		value := ""
		switch o.value {
		case "":
			value = " -f"
		case "FILE":
			value = " -r -F"
		case "ROOT":
			value = " -x -a '(__fish_complete_directories)'"
		default:
			value = " -x"
		}
		fmt.Fprintf(&b, "complete -c lwango -o %s%s -d '%s'\n", o.name[1:], value, escape.Replace(o.text))
	}
	fmt.Fprintf(&b, "complete -c lwango -n __fish_use_subcommand -f -a '%s'\n",
		strings.Join(server.Subcommands, " "))
	return b.String()
}
