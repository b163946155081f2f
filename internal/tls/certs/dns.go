package certs

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mholt/acmez/v3/acme"

	"github.com/lwango/lwango/internal/base/settings"
)

// DNS is dns of acme.
type DNS struct {
	Table settings.Table `toml:",table"`
	// Command adds a TXT record to the DNS, with the arguments present, NAME and VALUE behind its own,
	// and removes it, with cleanup, NAME and VALUE. Its status is 0 if it has done so. Without a
	// command, a program does that: see lwango.UseDNS.
	Command []string `toml:"command"`
	// Timeout is for a call, after which the command is killed.
	Timeout time.Duration `toml:"timeout" min:"1ms" max:"4m" default:"1m"`
	// Wait is how long the authority is not told of new records: name servers may need a while.
	Wait time.Duration `toml:"wait" min:"0" max:"4m" default:"10s"`
}

// TXTRecords adds and removes TXT records of the DNS, for the challenge dns-01. It is that of
// package lwango.
type TXTRecords interface {
	AddTXT(ctx context.Context, name, value string) error
	RemoveTXT(ctx context.Context, name, value string) error
}

// check checks the keys. A relative path with a slash begins in dir. records are those of the
// program; nil: it has none.
func (d *DNS) check(dir string, records TXTRecords) {
	switch {
	case len(d.Command) > 0 && d.Command[0] != "":
		path := d.Command[0]
		if strings.Contains(path, "/") && !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		path, err := exec.LookPath(path)
		if err != nil {
			d.Table.Errorf("command", "%v", err)
			return
		}
		d.Command = append([]string{path}, d.Command[1:]...)
	case d.Table.Has("command"):
		d.Table.Errorf("command", "expected a program, and its arguments")
	case records == nil:
		d.Table.Errorf("", "expected a command: this program has nothing of its own that changes the "+
			"DNS; it gets that by a call of lwango.UseDNS")
	}
}

// same reports whether both have the same settings.
func (d *DNS) same(o *DNS) bool {
	if d == nil || o == nil {
		return d == o
	}
	return d.Timeout == o.Timeout && d.Wait == o.Wait &&
		strings.Join(d.Command, "\x00") == strings.Join(o.Command, "\x00")
}

// prove adds the record for a challenge. withdraw removes it, also after ctx is done.
func (d *DNS) prove(ctx context.Context, t *task, c acme.Challenge) (withdraw func(), err error) {
	name, value := c.DNS01TXTRecordName(), c.DNS01KeyAuthorization()
	var records TXTRecords = command{d.Command}
	if len(d.Command) == 0 {
		records = t.config.Records
	}
	withdraw = func() {
		ctx, cancel := outlive(ctx, t.options.FinishLimit)
		defer cancel()
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
		if err := records.RemoveTXT(ctx, name, value); err != nil {
			t.log.Warn("a record of the DNS cannot be removed", "name", name, "value", value,
				"error", err)
		}
	}
	limited, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	if err := records.AddTXT(limited, name, value); err != nil {
		withdraw() // it may be there all the same
		return nil, err
	}
	return withdraw, nil
}

// command is a program that adds and removes records.
type command struct{ line []string }

// AddTXT implements TXTRecords.
func (c command) AddTXT(ctx context.Context, name, value string) error {
	return c.run(ctx, "present", name, value)
}

// RemoveTXT implements TXTRecords.
func (c command) RemoveTXT(ctx context.Context, name, value string) error {
	return c.run(ctx, "cleanup", name, value)
}

// run runs the command. Its error has the end of what the command has written.
func (c command) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, c.line[0], append(c.line[1:len(c.line):len(c.line)], args...)...)
	// It may have started others, which hold its output open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := new(tail)
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = fmt.Errorf("%s %s was killed: %w", c.line[0], args[0], context.Cause(ctx))
	case errors.Is(err, exec.ErrWaitDelay):
		return nil // it has done its work, and what it has started goes on
	default:
		err = fmt.Errorf("%s %s: %w", c.line[0], args[0], err)
	}
	if text := strings.TrimSpace(string(*out)); text != "" {
		err = fmt.Errorf("%w: %q", err, text)
	}
	return err
}

// tail keeps the last bytes that are written to it.
type tail []byte

// mostOutput is how much of the output of a command is logged.
const mostOutput = 1024

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	all := append(*t, p[max(0, len(p)-mostOutput):]...)
	*t = append((*t)[:0], all[max(0, len(all)-mostOutput):]...)
	return len(p), nil
}
