package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// upstream is what a work's requests are passed on to, by FastCGI but where it is an httpServer. The zero value: nothing.
type upstream struct {
	kind     upstreamKind
	workers  int  // PHP's
	backlog  int  // of PHP's socket
	kept     int  // connections that may stay between requests; 0: each request has one of its own
	streamed bool // request bodies go on as they come
}

type upstreamKind uint8

const (
	noUpstream upstreamKind = iota
	phpFPM                  // Debian's, with its opcache
	goResponder
	httpServer // net/http's hello, by HTTP
)

// appPrefix is the route of the scripts, as which PHP finds them too.
const (
	appPrefix   = "/app"
	helloScript = appPrefix + "/hello.php"
)

// scripts are what PHP runs. They send Content-Length and text/plain, as the other servers' answers have.
var scripts = map[string]string{
	"hello.php": `<?php
header('Content-Type: text/plain');
header('Content-Length: 13');
echo 'Hello, world!';
`,
	"slow.php": `<?php
usleep(50000);
header('Content-Type: text/plain');
header('Content-Length: 13');
echo 'Hello, world!';
`,
	"download.php": `<?php
$left = (int) $_GET['bytes'];
header('Content-Type: application/octet-stream');
header("Content-Length: $left");
$piece = str_repeat('0123456789abcdef', 4096);
for (; $left > 0; $left -= strlen($piece)) {
    echo $left < strlen($piece) ? substr($piece, 0, $left) : $piece;
}
`,
	"upload.php": `<?php
$in = fopen('php://input', 'r');
for ($n = 0; !feof($in); $n += strlen(fread($in, 65536)));
header('Content-Type: text/plain');
header('Content-Length: ' . strlen($n));
echo $n;
`,
	// The responder's: servers look whether there is a file of that name.
	filepath.Base(holdScript):    "",
	filepath.Base(releaseScript): "",
	filepath.Base(heldScript):    "",
}

// writeScripts makes the folder that PHP runs, below one that nginx takes for its root.
func writeScripts(root string) error {
	dir := filepath.Join(root, appPrefix)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// startUpstream starts what the work passes requests on to; nil: nothing. All servers of a work share it, round after
// round. The caller stops it.
func startUpstream(ctx context.Context, env *environment, w work) (*server, error) {
	if w.upstream.kind == noUpstream {
		return nil, nil
	}
	dir, err := os.MkdirTemp(env.dir, "upstream-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	s := &server{network: "unix", addr: filepath.Join(dir, "s")}
	argv := []string{env.self, "respond", s.addr}
	if w.upstream.kind == httpServer {
		if s.addr, err = freeAddress(); err != nil {
			return nil, err
		}
		s.network, argv = "tcp", []string{env.self, "serve", "nethttp", s.addr, filepath.Join(env.dir, "files")}
	}
	cpu := env.clientFor(w) // with the client: what it costs is nobody's
	if w.upstream.kind == phpFPM {
		s.peer.ends = true
		cpu = unpinned
		if argv, err = phpCommand(env, w.upstream, dir, s.addr); err != nil {
			return nil, err
		}
	}
	if err := s.start(ctx, env, cpu, argv, nil, dir); err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	return s, nil
}

// phpCommand leaves the machine's php.ini out (-n), so that all that is set is here. pm is static: who waits is to wait
// for a worker, and not for PHP-FPM to start one.
func phpCommand(env *environment, u upstream, dir, socket string) ([]string, error) {
	conf := fmt.Sprintf(`[global]
daemonize = no
error_log = %s/error.log
[www]
listen = %s
listen.mode = 0666
listen.backlog = %d
pm = static
pm.max_children = %d
`, dir, socket, u.backlog, u.workers)
	file := filepath.Join(dir, "fpm.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		return nil, err
	}
	argv := []string{env.php, "-n", "-d", "zend_extension=opcache", "-d", "opcache.enable=1", "-F", "-O", "-y", file}
	if os.Getuid() == 0 {
		argv = append(argv, "-R")
	}
	return argv, nil
}

// findPHP finds the newest PHP-FPM, which has its version in its name.
func findPHP() string {
	names, _ := filepath.Glob("/usr/sbin/php-fpm*")
	if len(names) == 0 {
		return ""
	}
	return names[len(names)-1]
}

var errNoPHP = errors.New("php-fpm is not installed (Debian: apt-get install php-fpm)")

// phpVersion is of the command and of its opcache, which must be there: without it, it is another PHP.
func phpVersion(ctx context.Context, env *environment) (string, error) {
	text, err := exec.CommandContext(ctx, env.php, "-n", "-d", "zend_extension=opcache", "-v").Output()
	if err != nil {
		return "", fmt.Errorf("%s -v: %w", env.php, err)
	}
	if !strings.Contains(string(text), "OPcache") {
		return "", errors.New("php-fpm has no opcache (Debian: apt-get install php-opcache)")
	}
	fields := strings.Fields(string(text))
	return "php-fpm " + fields[1], nil
}
