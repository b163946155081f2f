package sockets

// INET6 is the address family of IPv6.
var INET6 = &inet6
