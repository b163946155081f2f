// Package convert makes a lwango.conf of the configuration of another server, nginx. It reads files
// and asks nothing of the network: what it writes is checked by `lwango -t` afterwards.
//
// Whatever the converter does not carry over is listed with its file and line, and stands as a
// comment in the place where it would have acted. A directive that means nothing here, since the
// server does so by itself, is listed only if the user asks for that.
//
//	command.go    the subcommand: arguments, files, the report
//	token.go      the text of nginx: words, blocks
//	include.go    files, and those that they include
//	scope.go      which directive holds where
//	report.go     what is not carried over, and why
//	known.go      what is said of directives that have no key here
//	toml.go       the text that is written
//	convert.go    the whole: from directives to tables
//	listen.go     listeners, names of hosts, certificates
//	location.go   from locations to routes, in the order in which nginx looks
//	files.go      root, try_files, index
//	php.go        fastcgi, uwsgi, scgi
//	proxy.go      proxy_pass and grpc_pass
//	upstream.go   upstream
//	rules.go      return, rewrite, if
//	access.go     who may come: networks, passwords, routes that are asked
//	around.go     what else stands around a handler: limits, headers, pages
//	cache.go      proxy_cache and its kin
//	values.go     variables in texts; map, geo, split_clients
//	regexp.go     expressions, from PCRE to RE2
//	logs.go       access_log, log_format
//	stream.go     stream
package convert
