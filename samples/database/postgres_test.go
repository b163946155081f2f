package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// startPostgres starts a PostgreSQL with a new cluster, on a socket in a temporary folder, until
// the test ends, and returns its URL. Without PostgreSQL the test is left out
// (ci.Lacks). PostgreSQL refuses to run as root: then it runs as Debian's user postgres.
func startPostgres(t testing.TB) (url string) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // they are not in Debian's PATH
	slices.Sort(found)
	if name, err := exec.LookPath("initdb"); err == nil {
		name, _ = filepath.EvalSymlinks(name)
		found = append(found, name)
	}
	if len(found) == 0 {
		ci.Lacks(t, "PostgreSQL: Debian's package postgresql")
	}
	bin := filepath.Dir(found[len(found)-1])
	dir, err := os.MkdirTemp("", "pg") // t.TempDir is too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Getuid() == 0 {
		u := must.Get(user.Lookup("postgres"))(t)
		uid, _ := strconv.Atoi(u.Uid)
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(os.Getgid())}
		must.Do(t, os.Chown(dir, uid, -1))
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, attr
		return cmd
	}
	data := filepath.Join(dir, "data")
	if text, err := command("initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync",
		"--no-instructions", "-E", "UTF8", "--locale=C").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, text)
	}
	log := must.Get(os.Create(filepath.Join(dir, "log")))(t)
	defer log.Close()
	server := command("postgres", "-D", data, "-k", dir, "-h", "", "-F")
	server.Stdout, server.Stderr = log, log
	must.Do(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // at once, with its children
		_ = server.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("postgres: %.5000s", text)
		}
	})
	url = fmt.Sprintf("postgres:///postgres?host=%s&user=postgres&sslmode=disable", dir)
	wait.Until(t, "PostgreSQL answers", func() bool {
		c, err := pgx.Connect(context.Background(), url)
		if err == nil {
			c.Close(context.Background())
		}
		return err == nil
	})
	return url
}
