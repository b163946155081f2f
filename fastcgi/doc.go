// Package fastcgi is the module `fastcgi`. It passes requests on to PHP-FPM, or to another FastCGI
// application, on the thread of the request and nothing beside it.
//
//	[[site.route]]
//	prefix = "/"
//	module = "fastcgi"
//	address = "unix:/run/php/php-fpm.sock"
//	script_path = "/srv/www"
//
// Package fastcgi/internal/wire has the records, and internal/wire/cgi parameters, paths and
// headers: both do no I/O. Package internal/upstream chooses an address, and has the connections;
// internal/modules/gateway has the exchange with an application, which uwsgi and scgi have, too;
// internal/modules/reverseproxy has what these share with proxy.
//
//	module.go   settings, start
//	tree.go     the folder with the scripts, and what symbolic links mean there
//	serve.go    what a request's path means, and a request that a script answers
//	ping.go     health checks
//	params.go   the parameters that the application gets
//	records.go  records on a connection
//	stderr.go   what the application logs
//	buffers.go  memory for the time in which parameters are written
package fastcgi
