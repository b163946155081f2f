// Package server is the life of a process around the loops: command line, start, signals, reload,
// upgrade, stop. A request does not pass through it.
//
// A Program knows what is compiled in. Its Main loads a configuration (package config) before it opens
// anything; start makes a server of it: loops, sockets, access log. From then on the goroutine of Main
// does nothing but obey signals. That goroutine owns the server; the loops touch it only in the
// functions that it posts to them. Program.Start starts one in code, and any goroutine may call the
// methods of its Running.
//
//	main.go            Program, what signals do, exit codes
//	signals.go         which signals come, and none is lost
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
//	confine.go         another user, files and system calls out of reach
//	confinecheck.go    what will not work then, at the start and for -t
//	starter.go         whether process 1 has started this one
//	upgrade.go         SIGUSR2: a new process in the place of this one
//	handover.go        what the new process gets, and what it says
//	drain.go           the old one until its end
//	heirs.go           what the old ones purge, for the new one's cache
//	purge.go           purges that processes with one broker tell each other
//	upgradecommand.go  -upgrade
//	pidfile.go         the file with the number of the process, and its lock
//	sdnotify.go        what a service manager is told
//	version.go         the version of lwango
//
// The log names its package in each line; lines about the life of the server itself, which scripts
// wait for, have no such prefix.
package server
