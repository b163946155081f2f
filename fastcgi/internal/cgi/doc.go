// Package cgi is what FastCGI carries: CGI/1.1 (RFC 3875) as PHP and its like understand it. It says which script a
// path names, which parameters the script is given, and reads the header of its response. It does no I/O but to ask
// the FS it is given, and starts nothing.
//
// A program behind it trusts what it is told: who the client is, which file to run, which header fields there are.
// Every rule here that drops or refuses something does so since a program was deceived without it, and says how.
//
//	errors.go    refusals, by wire.Error
//	path.go      Split, Rules: from a clean path to a script, a file or a refusal
//	beneath.go   Beneath, Following: the FS of a folder
//	params.go    Request: the parameters of a request
//	server.go    ServerName
//	fields.go    header fields as parameters
//	header.go    Header: the resumable parser of a response's header
//	finish.go    what its fields mean
package cgi
