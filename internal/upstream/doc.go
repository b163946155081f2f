// Package upstream finds a connection for a request to another server. It chooses among the
// addresses of a route, counts and keeps connections, queues requests, and avoids addresses that do
// not work. The caller speaks any protocol on the connection.
//
// A process has one Pool, and each route has a Group of the Pool's addresses. A request has a Lease
// of its route's Group. Any loop may call the methods of Pool and Group; only the request's thread
// calls those of a Lease.
//
//	pool.go        Pool: the addresses of all routes, and the requests that wait
//	idle.go        idle connections, between two requests
//	group.go       Group: the addresses of a route, its slots, its queue
//	choose.go      Balance: which address is next
//	classes.go     servers of one weight, so that a request need not look at each
//	sticky.go      the address that a client comes back to
//	queue.go       requests that wait for a connection
//	spare.go       the last slots of an address, for clients that have none there
//	slotcounts.go  how many slots each client has
//	lease.go       Lease: a request's way to a connection, and the connection's way back
//	sessions.go    connections of HTTP/2, which many requests share
//	affinity.go    connections that are for one name, or one client
//	tls.go         TLS with an upstream
//	files.go       certificates and revocation lists that change
//	check.go       Check: health checks
//	circuit.go     addresses of which too large a share of requests fails
//	renew.go       further rounds for a request that has tried all addresses
//	count.go       counters of an address
//	report.go      the addresses as the status page shows them
//	state.go       addresses that an operator has drained or disabled
//	health.go      which addresses requests pass over for a while
//	source.go      the local address of connections
//	address.go     an address as the configuration writes it
//	names.go       DNS names, and their resolved addresses, which come and go
//	service.go     services, whose SRV records have hosts, ports and weights
//	resolve.go     looking up the addresses of a name, and how long they are valid
package upstream
