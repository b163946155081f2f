// Package conn serves HTTP/1.1 and HTTP/2 (RFC 9110, RFC 9112, RFC 9113) on the connections of a
// loop. Programs use it through package lwango, whose Handler, Request and Response are this
// package's. For other protocols, package stream has a net.Conn on a loop.
//
// A Handler answers one request, in plain sequential code, and returns the status:
//
//	func add(req *conn.Request, resp *conn.Response) int {
//		var in Item
//		if err := req.BindJSON(&in); err != nil {
//			return resp.Error(400, err)
//		}
//		resp.Header().Set("Location", "/items/"+in.ID)
//		return resp.JSON(201, in)
//	}
//
// It runs on its connection's thread. It may read the body, write, sleep and await; it must not
// block in any other way, because its whole loop waits with it. Await runs what blocks off the
// loop, and HTTP makes a Handler of an http.Handler, which may block. If the head goes out before
// the handler returns, it has the status of Response.SetStatus.
//
// Request and Response belong to that thread until the Handler returns. The handler may keep
// strings that it took from them, but no byte views. Package loop says what 0 and a negative limit
// of time mean.
//
// A program that makes its own loops serves with a Server:
//
//	srv := conn.NewServer(conn.Config{Handler: add})
//	ln, err := srv.Listen(l, conn.Listener{FD: fd}) // for each loop l; fd is from loop.Listen
//
// # For handlers and programs
//
//	Handler, HTTP, HTTPOnLoop         what answers requests; handlers of net/http as such
//	HTTPMiddleware                    middleware of net/http around them
//	HTTPMiddlewareOnLoop
//	Request, Response, Body           one exchange
//	Header, Field, RequestIDField     its fields
//	Await, Call                       functions that block, off the loop
//	Key, Set, Value                   what goes with a request
//	ValueOf, UserOf, RequestID        the same, by its context
//	File, Template                    what an answer can be made of
//	BindError                         what BindJSON and BindForm find wrong; other errors:
//	ErrBadField, ErrBodyRead, ErrBodySet, ErrBodyTimeout, ErrBodyTooLarge, ErrComplete
//	ErrNoDescriptor, ErrNoForm, ErrSpoolFull, ErrWroteTooMuch
//	Server, NewServer, Config         a server on loops of the program's own
//	Listener, Limits, Size            its parts
//	Service, Proxies
//	AccessLog, AccessEntry, Share     a line for each request
//
// # For layers and protocols
//
// Request.Layer and Response.Layer have the methods that only these need.
//
//	RequestLayer, ResponseLayer       what a layer may do besides, with both
//	HeadHook, ErrorPage, Encoder      what it registers
//	ErrRewrites, ErrTarget            of Rewrite
//	StatusNoAnswer                    of HangUp
//	FieldViews                        the fields of a request, without a copy
//	Reading, ReadingsOf               how an upstream may read a path
//	Tap, Verdict, SentHead            a copy of an answer
//	Sink, BackgroundSubrequest        requests that handlers send, and their answers
//	Copy, ErrNestedSubrequest
//	Duplex, TempFile                  body and answer at once, and what waits in between
//	HijackedConn, HijackedOf, Tail    connections and answers that a protocol has taken over
//	Keeper                            what keeps them, without a coroutine
//	Takeover, TakeoverOf              their requests meanwhile, and their lines in the access log
//	CacheUse                          what a cache has done
//	Stats, RouteStats                 what a server counts
//	Spooled                           a whole body of a request
//
// # Connections
//
// A connection is a thread of its loop. Its record, connection, is all that an idle client costs.
// While it is served it has a turn, with the stream and the buffers, which carries one exchange
// after another: a Request and its Response. Both stay with the coroutine and serve the next
// connection that runs on it. Package http1 parses. This package reads, hands requests to the
// Handler in order, frames the handler's answers, and decides whether a connection goes on or ends.
//
// # Files
//
// The prefix of a file names its part. A part knows the parts below it in this order, and other
// parts of its own line as little as possible. The ground is exchange_ and all files without one of
// these prefixes.
//
//	server_
//	h1_ h2_ subrequest_
//	bridge_ takeover_
//	response_
//	request_
//	exchange_
//
// Only h1_ names a turn, only h2_ a stream of HTTP/2 or a session. The other parts know the carrier
// of an exchange. A test in internal/test/repo counts the names that a part uses against the order.
//
// The server:
//
//	server.go              Server, accepting
//	server_admit.go        which connections may stay: limits, room, terms that have changed
//	server_evict.go        which of an address's connections gives way to its newcomer
//
// HTTP/1.1:
//
//	h1_connection.go       the connection as a task of its loop
//	h1_proxyheader.go      the header of the PROXY protocol
//	h1_handshake.go        the handshake of TLS
//	h1_turn.go             the life of a connection from request to request
//	h1_input.go            reading: the buffer, heads, time limits
//	h1_framing.go          request bodies on the wire: lengths, chunks, the unread rest
//	h1_head.go             heads and framing of answers
//	h1_output.go           writing: gathered, in full, in time
//	h1_linger.go           how a turn closes
//	h1_takeover.go         Hijack, and the owner of a connection that a handler has taken over
//	h1_tail.go             the owner of an answer of HTTP/1.1 that is kept open
//
// HTTP/2:
//
//	h2_session.go          a connection of HTTP/2: reading, sending, its end
//	h2_frames.go           frames of the client, and what each of them does
//	h2_stream.go           a stream (thread, exchange and carrier in one) and its request
//	h2_spare.go            streams that no request uses, for later ones
//	h2_answer.go           the answer of a stream
//	h2_credit.go           windows for uploads
//	h2_pace.go             what a stream waits for, and when the wait is its client's fault
//	h2_descriptors.go      how many descriptors the streams of a client may hold
//	h2_closed.go           closed streams whose clients may still send
//	h2_conn.go             a stream as a connection, for a handler that has taken it over
//	h2_takeover.go         the owner of such a stream
//	h2_tail.go             the owner of an answer of HTTP/2 that is kept open
//	h2_detach.go           a stream that a handler off the loop has taken over
//	h2_send.go             the order in which streams send content; heads
//
// Requests of handlers:
//
//	subrequest.go          a request that a handler sends to another handler of the server
//	subrequest_sink.go     a subrequest whose answer goes to a Sink, as the cache sends it
//	subrequest_carrier.go  the carrier of a subrequest
//
// Handlers of net/http, and connections that handlers take over:
//
//	bridge.go              http.Handler as a Handler: HTTP, HTTPOnLoop, the http.Request
//	bridge_writer.go       the http.ResponseWriter of an http.Handler
//	bridge_answer.go       how an http.Handler's answer becomes a Response
//	bridge_middleware.go   middleware of net/http around a Handler
//	bridge_through.go      the Response of a Handler whose ResponseWriter middleware has wrapped
//	bridge_pair.go         a thread and a goroutine that take turns, for that
//	bridge_habit.go        which requests an http.Handler answers in place
//	bridge_share.go        how many handlers off the loop HTTP/2 may have at a time
//	bridge_pipe.go         the pipes between a handler off the loop and its thread
//	bridge_carry.go        the thread of a handler off the loop, which moves bytes meanwhile
//	bridge_hijack.go       Hijack for a handler off the loop
//	takeover.go            Hijack: connections handed over to handlers
//	takeover_keeper.go     HandOver: connections that handlers hand on, without a coroutine
//	takeover_tail.go       KeepOpen: answers that are kept open, without a coroutine
//	takeover_owner.go      the task of a thread from then on, for both protocols
//
// Responses:
//
//	response.go            Response, as handlers see it
//	response_answer.go     whole answers in one call: JSON, text, pages, redirects, errors
//	response_buffer.go     the buffer of a Response
//	response_cacheuse.go   what a cache has done with a request, and for how long others may keep the
//	                       answer
//	response_content.go    conditions and ranges for content of a handler
//	response_finish.go     Response, as it goes out: hooks, the plan of the head, body, trailer
//	response_encode.go     content codings, between the body and its framing
//	response_errorpage.go  status lines, error pages and their order
//	response_tap.go        a copy of an answer for the cache
//	response_range.go      the part of a whole answer that the client has asked for
//
// Requests:
//
//	request.go             Request, and its id
//	request_proxies.go     what proxies say of the client in fields
//	request_target.go      path and query of a request, the pattern that they match, rewriting
//	request_sent.go        the target as it is sent on, and the ways to read its path
//	request_copy.go        a copy of a request, for another handler
//	request_waits.go       what a handler's thread can wait for, also off the loop
//	request_context.go     the request's context: its values, and another one in its place
//	request_body.go        request bodies, as handlers see them; Duplex: body and answer at once
//	request_spool.go       bodies in memory or in a temporary file; descriptors of a request
//	request_form.go        forms, and the parts of a multipart body as they come
//	request_bind.go        JSON of a request into a value
//	request_bindform.go    parameters and forms into a struct
//
// The ground:
//
//	exchange.go            one request and its answer, and what is left of them when they are over
//	exchange_layer.go      what layers may do besides, with both, and the values that they give to
//	                       requests
//	exchange_pace.go       the pace of a client, and what the log says of one that is too slow
//	exchange_log.go        what lines of the log say of their request
//	exchange_buffers.go    buffers and their sizes, reading of files
//	exchange_errors.go     errors, for handlers and for layers
//	exchange_counts.go     what is counted of requests
//	exchange_refusals.go   what is refused, in numbers
//	exchange_access.go     lines of the access log, and connections that wait for it
//	exchange_later.go      lines of requests that last for hours
//	carrier.go             the interface between an exchange and its connection
//	header.go              header fields of requests and responses
//	connection.go          the record of a connection, and the address that it has come to
//	connection_tls.go      TLS between stream and turn, and the buffers of a tls.Conn
//	connection_terms.go    what a listener asks of its clients, and which of them have met that
//	connection_linger.go   closing so that the client can read the last answer
//	port.go                what the connections of one listener on one loop share
//	config.go              Config, and whom to trust as a proxy
//	limits.go              Limits: their keys, ranges and defaults; Size
//	loglimiter.go          lines of the log that clients can cause
package conn
