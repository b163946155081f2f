// Package server is the program around the loops: command line, configuration, listeners, signals. A
// request does not pass through it: it goes from loop to conn to the handlers, which this package
// only puts together.
//
// A Program knows what is compiled in. Its Main reads a source (command line and file) into a
// config, checks all of it and builds its handlers before it opens anything; start makes a server
// of it: loops, sockets, access log. From then on the goroutine of Main does nothing but obey
// signals. That goroutine owns the server; the loops touch it only in the functions that it posts to
// them.
//
//	main.go       Program, flags, signals, exit codes
//	embed.go      a server that a program starts in code, without flags and signals
//	config.go     config: the keys of lwango.conf, their defaults and ranges; source
//	limits.go     descriptors of the server itself; room for temporary files
//	sites.go      from [[site]] tables to a router
//	around.go     what sites and routes have in common: the layers around modules
//	compression.go  the key compression, from the file's to the route's
//	places.go     at which listeners and schemes sites are; https addresses
//	proxies.go    the keys about proxies in front
//	include.go    the files that a configuration includes
//	explain.go    -u: the way of a request that is only thought of
//	builtin.go    the modules and handlers that come with lwango
//	welcome.go    the page of a server that has nothing to serve
//	listener.go   a socket handed out to the loops, and its certificates
//	run.go        start, stop
//	reload.go     SIGHUP
//	onloop.go     calls that must not be made on a loop
//	confine.go    another user, files and system calls out of reach
//	confinecheck.go  what will not work then, at the start and for -t
//	upgrade.go    SIGUSR2: a new process in the place of this one
//	handover.go   what the new process gets, and what it says
//	drain.go      the old one until its end
//	upgradecommand.go  -upgrade
//	pidfile.go    the file with the number of the process, and its lock
//	sdnotify.go   what a service manager is told
//
// The log names its package in each line; lines about the life of the server itself, which scripts
// wait for, have no such prefix.
//
// The package settings reads TOML into structs; no other one imports a TOML package.
package server
