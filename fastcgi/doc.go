// Package fastcgi is the module `fastcgi`. It passes requests on to PHP-FPM, or to another FastCGI
// application, on the thread of the request and nothing beside it.
//
//	[[site.route]]
//	prefix = "/"
//	module = "fastcgi"
//	address = "unix:/run/php/php-fpm.sock"
//	script_path = "/srv/www"
//
// internal/wire has the records, and the module's parameters, paths and headers are in internal/cgi:
// both do no I/O. Package internal/upstream chooses an address, and has the connections;
// internal/relay has what this module shares with proxy: the body, attempts, failures, and what a slow
// client has no room for.
//
//	module.go    settings, start
//	tree.go      the folder with the scripts, and what symbolic links mean there
//	serve.go     what a request's path means, and the way of one that a script answers
//	ping.go      checks of the server's own
//	params.go    what the application is told
//	exchange.go  one connection: sending and receiving at once
//	answer.go    the response, on its way to the client
//	flow.go      a client that is slower than the application
//	stderr.go    what the application logs
//	buffers.go   memory that a call holds only for a while
package fastcgi
