package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// serverOptions is what a work asks of a server.
type serverOptions struct {
	dir   string // of its own, for its configuration
	files string // the folder served below filesPrefix
	addr  string // 127.0.0.1:port
	work  work

	beside string // another address, for what the program does beside; empty: nothing

	upstream string // socket of what the work passes requests on to; empty: nothing
	scripts  string // the folder above that of the scripts
}

// peer is one server that takes part. command writes what configuration the server needs into o.dir and says how to
// start it in the foreground.
type peer struct {
	name    string
	command func(env *environment, o serverOptions) (argv, environ []string, err error)
	ready   string // a line with this word and the address on stderr means that it serves; empty: it accepts
	ends    bool   // exits with 0 on SIGTERM
}

// baseline is the peer that the others are put in relation to: lwango as it comes.
const baseline = "lwango-direct"

// other is lwango with the handoff that is not the default.
const other = "lwango-channel"

// unqueued is lwango that connects to PHP at once, as nginx does, and has the surplus wait in the socket's backlog. The
// others have max_conns as its manual advises, PHP's number of workers, and the surplus waits in them.
const unqueued = "lwango-unqueued"

// errNotInstalled makes a peer stay out of the report instead of failing the run.
var errNotInstalled = errors.New("not installed")

var peers = []peer{
	{name: baseline, command: lwangoCommand("direct", true), ready: "listening", ends: true},
	{name: other, command: lwangoCommand("channel", true), ready: "listening", ends: true},
	{name: unqueued, command: lwangoCommand("direct", false), ready: "listening", ends: true},
	{name: "nginx", command: nginxCommand("off"), ends: true},
	{name: "nginx-nopush", command: nginxCommand("on"), ends: true},
	{name: "fasthttp", command: goCommand("fasthttp")},
	{name: "nethttp", command: goCommand("nethttp")},
	{name: "goecho", command: goCommand("goecho")},
	{name: "epollecho", command: goCommand("epollecho")},
	{name: "gorilla", command: goCommand("gorilla")},
	{name: "gorilla-plain", command: goCommand("gorilla-plain")},
}

func peerNames() []string {
	var names []string
	for _, p := range peers {
		names = append(names, p.name)
	}
	return names
}

func (p peer) takesPart(w work) bool { return slices.Contains(w.peers, p.name) }

func (p peer) isLwango() bool { return strings.HasPrefix(p.name, "lwango-") }
func (p peer) isNginx() bool  { return strings.HasPrefix(p.name, "nginx") }

func lwangoCommand(handoff string, queue bool) func(*environment, serverOptions) ([]string, []string, error) {
	return func(env *environment, o serverOptions) ([]string, []string, error) {
		program := env.lwango[o.work.program]
		if o.work.kind == echo { // no server of HTTP: a sample with two flags, and a loop for each processor
			return []string{program, "-l", o.addr, "-handoff", handoff}, []string{goMaxProcs(o)}, nil
		}
		// Long enough for idle connections to stay through a measurement; all servers have the same.
		conf := fmt.Sprintf(`keep_alive_timeout = "300s"
max_connections = 16384
threads = %d
handoff = %q
max_body_size = "2GiB"

[headers]
server = "lwango"

[[listener]]
address = %q

[[site]]

[[site.route]]
prefix = "/"
handler = "hello_world"

[[site.route]]
prefix = %q
module = "serve_files"
path = %q
%s`, o.work.threads, handoff, o.addr, filesPrefix, o.files, lwangoFastCGI(o, queue))
		if o.work.broker != "" {
			conf += fmt.Sprintf("\n[pubsub]\nurl = %q\n", o.work.broker)
		}
		file := filepath.Join(o.dir, "lwango.conf")
		if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
			return nil, nil, err
		}
		argv := []string{program, "-c", file}
		if o.beside != "" {
			argv = append(argv, "-beside", o.beside, "-backend", o.upstream)
		}
		return argv, nil, nil
	}
}

// lwangoFastCGI is the route of the scripts.
func lwangoFastCGI(o serverOptions, queue bool) string {
	u := o.work.upstream
	if u.kind == noUpstream || u.kind == httpServer {
		return ""
	}
	maxConns := 0
	if queue {
		maxConns = u.workers
	}
	return fmt.Sprintf(`
[[site.route]]
prefix = %q
module = "fastcgi"
address = "unix:%s"
script_path = %q
max_conns = %d
keep_conn = %t
max_idle = %d
request_buffering = %t
`, appPrefix, o.upstream, filepath.Join(o.scripts, appPrefix), maxConns, u.kept > 0, max(u.kept, 1), !u.streamed)
}

// goCommand runs one of serve.go's servers. GOMAXPROCS is its number of loops.
func goCommand(name string) func(*environment, serverOptions) ([]string, []string, error) {
	return func(env *environment, o serverOptions) ([]string, []string, error) {
		argv := []string{env.self, "serve", name, o.addr, o.files}
		if o.beside != "" {
			argv = append(argv, o.beside, o.upstream)
		}
		return argv, []string{goMaxProcs(o)}, nil
	}
}

func goMaxProcs(o serverOptions) string { return fmt.Sprintf("GOMAXPROCS=%d", o.work.threads) }

// nginxCommand writes a configuration that gives nginx its best: no log, no limit on requests per connection (the
// default of 1,000 would have wrk connect again and again), sendfile. With two workers each gets its own listening
// socket.
//
// tcp_nopush matters for files, and both ways: off, nginx's default, the head is a segment of its own; on, as in
// Debian's nginx.conf, it shares one with the file's first bytes. The small file is cheaper with it. The large one is
// dearer for the server: a short segment makes the client's window grow more slowly, so that most of the file waits in
// the send buffer and leaves it while the client's acknowledgements are handled, in the client's time (and at a lower
// rate). Neither is the better nginx, so both are measured.
func nginxCommand(nopush string) func(*environment, serverOptions) ([]string, []string, error) {
	return func(env *environment, o serverOptions) ([]string, []string, error) {
		return writeNginx(env, o, nopush)
	}
}

func writeNginx(env *environment, o serverOptions, nopush string) ([]string, []string, error) {
	if env.nginx == "" {
		return nil, nil, errNotInstalled
	}
	reuse := ""
	if o.work.threads > 1 {
		reuse = " reuseport"
	}
	// Debian's build has these folders below /var/lib/nginx, where only root may write.
	var temporary strings.Builder
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		if !strings.Contains(env.nginxBuild, "--without-http_"+name+"_module") {
			fmt.Fprintf(&temporary, "    %s_temp_path %s;\n", name, filepath.Join(o.dir, name))
		}
	}
	conf := fmt.Sprintf(`daemon off;
worker_processes %d;
worker_rlimit_nofile %d;
pid %s/nginx.pid;
error_log %s/error.log error;
events { worker_connections 16384; }
http {
%s    access_log off;
    sendfile on;
    tcp_nopush %s;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    default_type application/octet-stream;
    server {
        listen %s backlog=4096%s;
        location / { default_type text/plain; return 200 %q; }
        location %s/ { root %s; }
%s    }
%s}
`, o.work.threads, env.maxFiles, o.dir, o.dir, temporary.String(), nopush, o.addr, reuse, hello, filesPrefix, filepath.Dir(o.files),
		nginxFastCGI(o), nginxUpstream(o))
	file := filepath.Join(o.dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		return nil, nil, err
	}
	return []string{env.nginx, "-p", o.dir, "-e", filepath.Join(o.dir, "error.log"), "-c", file}, nil, nil
}

// nginxFastCGI has the parameters of Debian's fastcgi.conf and, as its snippets/fastcgi-php.conf, looks whether there is
// such a script before it asks PHP for it, which lwango does too.
func nginxFastCGI(o serverOptions) string {
	u := o.work.upstream
	if u.kind == noUpstream {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "        location %s/ {\n            root %s;\n            try_files $fastcgi_script_name =404;\n", appPrefix, o.scripts)
	text.WriteString("            fastcgi_pass app;\n            client_max_body_size 0;\n")
	for _, param := range nginxParams {
		fmt.Fprintf(&text, "            fastcgi_param %s;\n", param)
	}
	if u.kept > 0 {
		text.WriteString("            fastcgi_keep_conn on;\n")
	}
	if u.streamed {
		text.WriteString("            fastcgi_request_buffering off;\n")
	}
	text.WriteString("        }\n")
	return text.String()
}

func nginxUpstream(o serverOptions) string {
	u := o.work.upstream
	if u.kind == noUpstream {
		return ""
	}
	keepalive := ""
	if u.kept > 0 {
		keepalive = fmt.Sprintf("keepalive %d; ", u.kept)
	}
	return fmt.Sprintf("    upstream app { server unix:%s; %s}\n", o.upstream, keepalive)
}

var nginxParams = []string{
	"SCRIPT_FILENAME $document_root$fastcgi_script_name",
	"QUERY_STRING $query_string",
	"REQUEST_METHOD $request_method",
	"CONTENT_TYPE $content_type",
	"CONTENT_LENGTH $content_length",
	"SCRIPT_NAME $fastcgi_script_name",
	"REQUEST_URI $request_uri",
	"DOCUMENT_URI $document_uri",
	"DOCUMENT_ROOT $document_root",
	"SERVER_PROTOCOL $server_protocol",
	"REQUEST_SCHEME $scheme",
	"HTTPS $https if_not_empty",
	"GATEWAY_INTERFACE CGI/1.1",
	"SERVER_SOFTWARE nginx/$nginx_version",
	"REMOTE_ADDR $remote_addr",
	"REMOTE_PORT $remote_port",
	"SERVER_ADDR $server_addr",
	"SERVER_PORT $server_port",
	"SERVER_NAME $server_name",
	"REDIRECT_STATUS 200",
}

// findNginx looks in sbin too, which is not in everybody's PATH.
func findNginx() string {
	for _, name := range []string{"nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
