// Php serves a small PHP site through PHP-FPM, which it starts and stops.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/lwango/lwango"
)

//go:embed lwango.conf php-fpm.conf site
var files embed.FS

func main() {
	name := flag.String("php-fpm", "php-fpm",
		"PHP-FPM to start: a `path`, or a name to look for; for php-fpm, the newest\n"+
			"of php-fpm8.2, php-fpm8.3 and so on will do")
	lwango.ParseFlags()
	path, err := find(*name)
	if err != nil {
		fmt.Fprintf(os.Stderr, "php: %v\n", err)
		os.Exit(1)
	}
	os.Exit(serve(path))
}

// serve runs PHP-FPM and lwango until one of them ends or a signal arrives, and returns the exit
// code. When it returns, both have ended and the folder is gone.
func serve(path string) int {
	// A signal may arrive before lwango handles any, and must leave nothing behind then either.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	dir, err := unpack()
	defer os.RemoveAll(dir)
	if err != nil {
		slog.Error("cannot write the site to a temporary folder", "error", err)
		return 1
	}
	fpm, err := start(ctx, path, dir)
	if err != nil {
		slog.Error("cannot start php-fpm", "path", path, "error", err)
		return 1
	}
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		<-fpm.ended
		end(fpm.err)
	}()
	code := lwango.Run(ctx, filepath.Join(dir, "lwango.conf"))
	if !fpm.stop() {
		slog.Error("php-fpm has ended, and not because of us", "error", fpm.err)
		return 1
	}
	return code
}

// unpack writes the site and both configurations to a new folder. The paths in them are relative to
// it.
func unpack() (dir string, err error) {
	// If root runs this program, another user runs the scripts, and must be able to read them. Of
	// the two calls, the outer one is deferred and restores the old mask.
	defer syscall.Umask(syscall.Umask(0o022))
	if dir, err = os.MkdirTemp("", "lwango-php-"); err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return dir, err
	}
	uploads := filepath.Join(dir, "tmp")
	if err := os.Mkdir(uploads, 0o700); err != nil {
		return dir, err
	}
	if os.Geteuid() != 0 {
		return dir, nil
	}
	return dir, errors.Join(
		os.Chmod(dir, 0o711),
		os.Chmod(uploads, 0o777|os.ModeSticky),
		reachable(filepath.Dir(dir)),
	)
}

// reachable returns an error if other users cannot reach the files in dir. PHP-FPM would only say
// that there is no such script.
func reachable(dir string) error {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 == 0 {
			return fmt.Errorf("%s is closed to the user nobody, who is to run the scripts; "+
				"TMPDIR names another place", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
