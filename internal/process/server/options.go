package server

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Options is a valid command line.
type Options struct {
	file    string
	listen  []string
	root    string
	check   bool
	asked   string // the request of -u
	show    bool
	upgrade bool
	version bool

	args []string // as they were given
}

// Subcommands are the names of commands that are not the server, sorted. Package command has them.
var Subcommands = []string{"convert", "purge", "top", "upstream"}

// Usage is what the flag -h prints.
const Usage = `usage: lwango [-c FILE] [-l ADDRESS]... [-r ROOT] [-t [-u REQUEST]] [-T]
              [-upgrade] [-v]

  -c FILE     configuration; without it, the one that the program asks for, if there is one:
              for lwango that is lwango.conf in the working directory, for most programs none
  -l ADDRESS  listen here (host:port, *:port, [v6]:port, unix:/path, systemd:name) and not
              where the configuration says; may be repeated
  -r ROOT     serve this folder and not the sites of the configuration; without -c, with the
              built-in defaults for everything else
  -t          check the configuration, confined as [confine] says, and exit
  -u REQUEST  with -t, tell which site, route and rules a request would meet, and why: a URL, or a
              method and a URL ("POST http://example.org/x")
  -T          as -t, and print all settings that are in force, as one configuration: with included
              files and defaults; ${...} stays as it is written, so that secrets do not show
  -upgrade    let the program that is now at the path of the running server take its place, wait for
              that, and exit; the configuration must have a pid_file
  -v          print version, commit and the version of Go, and exit

lwango top shows what a running server says of itself; see lwango top -h. lwango upstream drains,
disables and enables its upstreams, lwango purge purges its cache; see lwango upstream -h, lwango purge -h.
lwango convert makes a configuration of one for nginx; see lwango convert -h.

SIGTERM and SIGINT stop it after the requests in flight. After a SIGHUP it reads its configuration
again, and after a SIGUSR1 it opens its logs anew, as after a SIGHUP. After a SIGUSR2 it does what
-upgrade asks for.
Exit codes: 0 stopped, 1 failure, 2 usage or configuration.
`

// Parse takes the arguments of a command line, without the program's name. It accepts lwango's
// flags, and those in own whose names lwango does not use. If it returns no options, the caller
// ends the program with the exit code: Parse has printed the output of a flag to stdout, or a
// mistake to stderr.
func Parse(args []string, own *flag.FlagSet, stdout, stderr io.Writer) (o *Options, code int) {
	o, theirs, err := parseArgs(args, own)
	o.args = args
	switch {
	case errors.Is(err, flag.ErrHelp):
		printUsage(stdout, theirs)
		return nil, 0
	case err != nil:
		fmt.Fprintf(stderr, "lwango: %v\n", err)
		printUsage(stderr, theirs)
		return nil, exitUsage
	case o.version:
		fmt.Fprintln(stdout, version())
		return nil, 0
	}
	return o, 0
}

func printUsage(w io.Writer, theirs *flag.FlagSet) {
	fmt.Fprint(w, Usage)
	n := 0
	theirs.VisitAll(func(*flag.Flag) { n++ })
	if n > 0 {
		fmt.Fprint(w, "\nFlags of this program beside those of lwango:\n\n")
		theirs.SetOutput(w)
		theirs.PrintDefaults()
	}
}

// parseArgs also returns theirs: the flags in own whose names lwango does not use.
func parseArgs(args []string, own *flag.FlagSet) (o *Options, theirs *flag.FlagSet, err error) {
	o = new(Options)
	f := flag.NewFlagSet("lwango", flag.ContinueOnError)
	f.SetOutput(io.Discard) // Parse prints the error and the usage
	f.StringVar(&o.file, "c", "", "")
	f.Func("l", "", func(s string) error {
		o.listen = append(o.listen, s)
		return nil
	})
	f.StringVar(&o.root, "r", "", "")
	f.BoolVar(&o.check, "t", false, "")
	f.StringVar(&o.asked, "u", "", "")
	f.BoolVar(&o.show, "T", false, "")
	f.BoolVar(&o.upgrade, "upgrade", false, "")
	f.BoolVar(&o.version, "v", false, "")
	theirs = flag.NewFlagSet("", flag.ContinueOnError)
	own.VisitAll(func(x *flag.Flag) {
		if f.Lookup(x.Name) == nil {
			f.Var(x.Value, x.Name, x.Usage)
			theirs.Var(x.Value, x.Name, x.Usage)
		}
	})
	if err := f.Parse(args); err != nil {
		return o, theirs, err
	}
	if o.asked != "" && !o.check {
		return o, theirs, errors.New("-u needs -t")
	}
	if o.asked != "" && o.show {
		return o, theirs, errors.New("-u and -T exclude each other")
	}
	if o.upgrade && (o.check || o.show) {
		return o, theirs, errors.New("-upgrade goes without -t and -T")
	}
	if f.NArg() > 0 {
		return o, theirs, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, theirs, nil
}
