// Package tcpproxy serves the tables [[stream]]: it passes connections of TCP, or of UNIX sockets,
// on to upstreams, whatever they speak.
//
// A process has one Hub, and each [[stream]] of a configuration a Service, which the Hub has built
// of its Settings. A connection is a thread of its loop with two sockets, the client's and the one
// to the upstream. At first it reads sequentially: the header of a proxy in front, the ClientHello,
// the handshake; then it connects. From then on the loop calls its Task whenever bytes can move,
// and between two calls it holds neither a coroutine nor a buffer.
//
//	settings.go    Settings: the keys
//	hub.go         Hub, and what it counts at each address
//	service.go     Service: routes, and the accepting of connections
//	connection.go  a connection's life, its times, its line in the access log
//	open.go        connecting to the upstream
//	pump.go        moving bytes both ways, by internal/upstream/tunnel
package tcpproxy
