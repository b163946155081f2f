package convert

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Exit codes of Main.
const (
	exitWhole   = 0 // all was carried over
	exitLeft    = 1 // something was left, which is listed
	exitRefused = 2 // there is no result
)

// Main runs `lwango convert` with its arguments, and returns its exit code: 0 if all was carried
// over, 1 if something was left, 2 if there is no result.
func Main(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("lwango convert", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("o", "", "write the configuration to this `file`, which must not exist, and "+
		"not to stdout")
	all := flags.Bool("v", false, "also list what the server does by itself")
	flags.Usage = func() {
		fmt.Fprint(stderr, "usage: lwango convert [-v] [-o lwango.conf] nginx.conf\n\n"+
			"Makes a configuration of one for nginx, and lists what it leaves out: 0 is the exit code\n"+
			"if that is nothing, 1 if it is something, 2 if there is no result.\n\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitWhole
		}
		return exitRefused
	}
	if flags.NArg() != 1 {
		flags.Usage()
		return exitRefused
	}
	text, report, err := File(flags.Arg(0))
	if err == nil {
		err = write(*out, text, stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "lwango convert:", err)
		return exitRefused
	}
	for _, line := range report.lines(*all) {
		fmt.Fprintln(stderr, line)
	}
	n := report.count(left)
	file := "FILE"
	if *out != "" {
		file = *out
	}
	fmt.Fprintf(stderr, "%d left, %d different, %d that the server does by itself; "+
		"check it with lwango -t -c %s\n", n, report.count(differs), report.count(byItself), file)
	if n > 0 {
		return exitLeft
	}
	return exitWhole
}

// write writes the result to a new file, or to stdout.
func write(name, text string, stdout io.Writer) error {
	if name == "" {
		_, err := io.WriteString(stdout, text)
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// File converts a configuration of nginx, and what it includes.
func File(name string) (text string, r *report, err error) {
	name, err = filepath.Abs(name)
	if err != nil {
		return "", nil, err
	}
	in := &reader{dir: confDir(name)}
	all, err := in.read(name)
	if err != nil {
		return "", nil, err
	}
	if err := checkLocations(all); err != nil {
		return "", nil, err
	}
	res, r := convert(all, in.dir)
	var b strings.Builder
	fmt.Fprintf(&b, "# Made of %s by lwango convert; see docs/use/from-nginx.md.\n\n",
		filepath.Base(name))
	if open := r.unguarded(); len(open) > 0 {
		b.WriteString("# nginx refuses requests by these, and this configuration does not yet. See to\n" +
			"# each of them, and remove the key: with it, lwango -t refuses the file.\n" +
			"unguarded = [\n")
		for _, line := range open {
			b.WriteString("\t" + quote(line) + ",\n")
		}
		b.WriteString("]\n\n")
	}
	b.WriteString(res.String())
	return b.String(), r, nil
}
