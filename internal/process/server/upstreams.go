package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/sockets"
)

// upstreams answers at the debug address with all upstreams, and sets the state of one. The answer
// to a POST is the list of the upstreams with the given name. It has an address to which a name
// resolves only while the address has a state of its own; other lists have all addresses.
func (s *server) upstreams(w http.ResponseWriter, r *http.Request) {
	all := s.observed.common().Upstreams
	if r.Method == http.MethodPost {
		name, state := r.FormValue("name"), r.FormValue("state")
		if !slices.Contains(metrics.UpstreamStates, state) {
			http.Error(w, "expected a state: "+strings.Join(metrics.UpstreamStates, ", "),
				http.StatusBadRequest)
			return
		}
		if !s.observed.setState(name, state) {
			http.Error(w, fmt.Sprintf("no route has an upstream %q", name), http.StatusNotFound)
			return
		}
		s.own.Info("upstream set", "upstream", name, "state", state)
		all = s.observed.common().Upstreams
		other := func(u metrics.Upstream) bool { return u.Address != name }
		if named := slices.DeleteFunc(slices.Clone(all), other); len(named) > 0 {
			all = named
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all)
}

// setState sets the state of an upstream for all routes, and reports whether any route has that
// upstream. Each module has a pool of its own, and a pool has one state for each name.
func (o *observed) setState(name, state string) (known bool) {
	for _, u := range o.now.Load().upstreams {
		known = u.SetState(name, state) || known
	}
	return known
}

// states returns the states that operators have set, for the next process.
func (o *observed) states() map[string]string {
	out := map[string]string{}
	for _, u := range o.now.Load().upstreams {
		maps.Copy(out, u.States())
	}
	return out
}

const upstreamUsage = `usage: lwango upstream [-c FILE] [-d ADDRESS] [list | drain NAME | disable NAME | enable NAME]

Shows the upstreams of a running server, or says what requests go to one, for all routes:

  drain    those of clients that come back to it with their cookie (sticky); no others
  disable  none
  enable   all, as before

What is under way there goes on; ACTIVE tells when nothing is. NAME is an address as the
configuration has it, or one to which such a name leads. It lasts until it is said otherwise, over
reloads and upgrades, but not over a stop.

  -c FILE     configuration whose [debug] address the server answers at; without it, lwango.conf
  -d ADDRESS  that address: unix:/path of a socket, or host:port
`

// Upstream is the command upstream with its arguments. It returns the exit code.
func Upstream(args []string, stdout, stderr io.Writer) int {
	var to string
	c := newDebugCommand("upstream", upstreamUsage, stderr)
	check := func([]string) error {
		state := map[string]string{"list": "", "drain": "drain", "disable": "down", "enable": "up"}
		var known bool
		if to, known = state[cmp.Or(c.Arg(0), "list")]; !known || (to == "") != (c.Arg(1) == "") ||
			c.NArg() > 2 {
			return errors.New("expected list, or drain, disable or enable and a NAME")
		}
		return nil
	}
	return c.run(args, check, func(client *http.Client) error {
		return askUpstreams(stdout, client, c.Arg(1), to)
	})
}

// debugCommand is a command that asks a running server at its debug address, with the flags -c and
// -d beside its own.
type debugCommand struct {
	*flag.FlagSet
	usage         string
	file, address *string
}

func newDebugCommand(name, usage string, stderr io.Writer) debugCommand {
	c := debugCommand{FlagSet: flag.NewFlagSet("lwango "+name, flag.ContinueOnError), usage: usage}
	c.SetOutput(stderr)
	c.Usage = func() { fmt.Fprint(stderr, usage) }
	c.file, c.address = c.String("c", "lwango.conf", ""), c.String("d", "", "")
	return c
}

// run checks the arguments after the flags, sends the request, and returns the exit code.
func (c debugCommand) run(args []string, check func(rest []string) error,
	ask func(*http.Client) error) int {
	switch err := c.Parse(args); {
	case err == flag.ErrHelp:
		return 0
	case err != nil:
		return exitUsage
	}
	if err := check(c.Args()); err != nil {
		fmt.Fprintf(c.Output(), "%s: %v\n%s", c.Name(), err, c.usage)
		return exitUsage
	}
	at, err := debugAddress(*c.address, *c.file)
	if err != nil {
		return misconfigured(c.Output(), err)
	}
	if err := ask(debugClient(at)); err != nil {
		fmt.Fprintf(c.Output(), "%s: %v\n", c.Name(), err)
		return exitFailure
	}
	return 0
}

// debugAddress returns the debug address of a server that was started with file.
func debugAddress(address, file string) (at sockets.Address, err error) {
	if address != "" {
		dir, err := os.Getwd()
		if err != nil {
			return at, err
		}
		return sockets.ParseAddress(address, dir)
	}
	c, err := config.Source{File: file, Modules: config.Builtin()}.LoadForUpgrade()
	switch {
	case err != nil:
		return at, err
	case c.Debug.Address == "":
		return at, fmt.Errorf("%s has no [debug] address, at which the server could be asked", file)
	}
	return sockets.ParseAddress(c.Debug.Address, c.Dir)
}

// debugClient returns a client for one request to the debug address of a server.
func debugClient(at sockets.Address) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, at.Network, at.Name)
		}}}
}

// checkAnswer returns a good answer. Any other answer of a server is an error.
func checkAnswer(resp *http.Response, err error) (*http.Response, error) {
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return nil, errors.New(strings.TrimSpace(string(text)))
}

// askUpstreams asks a server for its upstreams, or sets the state of one to to, and prints the
// answer.
func askUpstreams(out io.Writer, client *http.Client, name, to string) (err error) {
	const path = "http://localhost/debug/upstreams"
	var resp *http.Response
	if to == "" {
		resp, err = checkAnswer(client.Get(path))
	} else {
		resp, err = checkAnswer(client.PostForm(path, url.Values{"name": {name}, "state": {to}}))
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var all []metrics.Upstream
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return err
	}
	fmt.Fprintf(out, "%-8s %8s %8s %8s  %s\n", "STATE", "ACTIVE", "IDLE", "WAITING", "UPSTREAM")
	for _, u := range all {
		fmt.Fprintf(out, "%-8s %8d %8d %8d  %s of %s %s\n", u.Shown(), u.Active, u.Idle, u.Waiting,
			u.Address, u.Site, u.Route)
	}
	return nil
}
