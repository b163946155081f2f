// Package cgi is CGI/1.1 (RFC 3875) as FastCGI, uwsgi and SCGI carry it, and as PHP and similar
// programs understand it. It finds the script that a path names, makes the variables for the
// script, and reads the header of the script's response. It does no I/O except through an FS, and
// starts nothing.
//
// A program trusts the server's variables: who the client is, which file to run, which header
// fields there are. Each rule here that drops or refuses something exists because a program was
// deceived without it, as its comment explains.
//
//	errors.go    Error: status and reason of every refusal
//	path.go      Split, Rules: from a clean path to a script, a file or a refusal
//	template.go  Front, values of parameters with placeholders
//	globs.go     Globs: which scripts may run
//	beneath.go   Beneath, Following: the FS of a folder
//	vars.go      Vars: variables as each protocol writes them
//	params.go    Request: the variables of a request
//	server.go    ServerName
//	fields.go    header fields as variables
//	header.go    Header: the parser of a response's header, piece by piece
//	finish.go    what the fields of a response mean
package cgi
