// Package server runs the process around the loops: command line, start, signals, reload, upgrade,
// stop. A request does not pass through it.
//
// A Program has the modules and routes that are compiled in. Its Main loads a configuration
// (package config) before it opens anything; start makes a server of it: loops, sockets, access
// log. From then on the goroutine of Main only obeys signals. That goroutine owns the server; the
// loops touch it only in functions that it posts to them. Program.Start starts a server in code,
// and any goroutine may call the methods of its Running.
//
//	main.go            Program, what signals do, exit codes
//	signals.go         the signals, none of which is lost
//	options.go         the command line
//	running.go         a server that a program starts in code, without flags and signals
//	listener.go        a socket handed out to the loops, and its certificates
//	run.go             start, stop
//	status.go          what handlers and the debug address see of the server
//	debug.go           the debug address
//	upstreams.go       states of upstreams, at the debug address and by command
//	memory.go          memory that goes back to the system after a burst
//	reload.go          SIGHUP
//	onloop.go          calls that must not be made on a loop
//	confine.go         giving up the user, files and system calls
//	confinecheck.go    what will not work once confined, at the start and for -t
//	starter.go         whether process 1 has started this one
//	upgrade.go         SIGUSR2: a new process in the place of this one
//	handover.go        the messages between the old and the new process of an upgrade
//	drain.go           the old process of an upgrade until its end
//	purgepipe.go       purges in the old processes, for the cache of the new one
//	limits.go          what processes with one broker tell each other of shared limits
//	purge.go           purges that processes with one broker tell each other
//	upgradecommand.go  lwango -upgrade
//	pidfile.go         the PID file and its lock
//	errorlog.go        where the server's own log goes
//	process.go         what the kernel says of the process
//	drainreports.go    what processes that were replaced say of their connections
//	sdnotify.go        notifications for a service manager (sd_notify(3))
//	version.go         the version of lwango
//
// The log names its package in each line; lines about the life of the server itself, which scripts
// wait for, have no such prefix.
package server
