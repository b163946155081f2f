package main

import (
	"bytes"
	"time"

	"github.com/lwango/lwango/bench/chatrules"
	"github.com/lwango/lwango/bench/httphello"
)

// kind tells how a work is measured.
type kind uint8

const (
	load     kind = iota // closed loop for CPU per request, then open loop at half that rate for latency
	idle                 // connections that have had one request and stay; memory
	echo                 // messages over TCP, closed loop for CPU per message
	sleepers             // handlers that sleep at the same time; memory, and how late they wake
	bulk                 // one large body through the server; memory, and bytes/s
	waiting              // requests that wait for an application; memory, and the latency of another route
	burst                // requests that come at once and are more than the application takes; how many fail
	wsIdle               // WebSockets that have had one message and stay; memory
	wsEcho               // messages over WebSocket, closed loop for CPU per message
	chat                 // rooms of a chat, messages at a fixed rate; CPU per delivery, latency, what is lost
	brokered             // the same through two servers and a broker
	beside               // one thing at a low rate while the server does another; latency
)

// work is one thing that all servers are asked to do.
type work struct {
	name       string
	title      string
	kind       kind
	unit       string   // what the figures are of
	peers      []string // the servers that take part
	program    string   // lwango's, a folder of its repository
	path       string
	conns      int
	smokeConns int    // at most so many in a smoke run
	depth      int    // requests sent in one write; 1 unless pipelined
	threads    int    // loops, workers or GOMAXPROCS of the server; above 1 nothing is pinned
	body       []byte // of an answer, or a message
	text       bool   // answered as text/plain
	upstream   upstream
	size       int64 // of a transfer, bytes
	smokeSize  int64 // at most so much in a smoke run
	upload     bool  // from the client
	chat       chatPlan
	neighbour  neighbour
	broker     string // its URL, while it is measured
}

// hello is the body of every plain answer, of the same length for all servers.
const hello = "Hello, world!"

// filesPrefix is where every server has the folder of files.
const filesPrefix = "/files"

// files are what that folder holds. Random-looking but fixed bytes: a wrong offset or a short read shows.
var files = map[string][]byte{
	"4k.bin": pattern(4 << 10),
	"1m.bin": pattern(1 << 20),
}

// The servers that answer plain requests, and those of them and beside them that serve files.
var (
	helloServers  = []string{baseline, other, "nginx", "fasthttp", "nethttp"}
	fileServers   = []string{baseline, other, "nginx", "nginx-nopush", "fasthttp", "nethttp"}
	echoServers   = []string{baseline, other, "goecho", "epollecho"}
	sleepServers  = []string{baseline, other, "nethttp"}
	proxies       = []string{baseline, other, "nginx"}
	queueing      = []string{baseline, other, unqueued, "nginx"}
	bridgeServers = []string{baseline, other, "nethttp"}
	chatServers   = []string{baseline, other, "gorilla"}
	chatMemory    = []string{baseline, other, "gorilla", "gorilla-plain"}
	brokerServers = []string{baseline, other}
)

// command is the program of lwango that answers most works.
const command = "cmd/lwango"

var works = []work{
	{name: "hello", title: "keep-alive hello, 64 connections", unit: "request",
		peers: helloServers, program: command, path: "/", conns: 64, smokeConns: 64, depth: 1, threads: 1, body: []byte(hello), text: true},
	{name: "pipelined", title: "hello pipelined x16, 64 connections", unit: "request",
		peers: helloServers, program: command, path: "/", conns: 64, smokeConns: 16, depth: 16, threads: 1, body: []byte(hello), text: true},
	{name: "file4k", title: "4 KiB file, 64 connections", unit: "request",
		peers: fileServers, program: command, path: filesPrefix + "/4k.bin", conns: 64, smokeConns: 16, depth: 1, threads: 1, body: files["4k.bin"]},
	{name: "file1m", title: "1 MiB file, 16 connections", unit: "request",
		peers: fileServers, program: command, path: filesPrefix + "/1m.bin", conns: 16, smokeConns: 4, depth: 1, threads: 1, body: files["1m.bin"]},
	{name: "busy", title: "hello, 4,000 busy connections", unit: "request",
		peers: helloServers, program: command, path: "/", conns: 4000, smokeConns: 200, depth: 1, threads: 1, body: []byte(hello), text: true},
	{name: "idle", title: "10,000 idle keep-alive connections after one request each", kind: idle, unit: "idle connection",
		peers: helloServers, program: command, path: "/", conns: 10000, smokeConns: 200, depth: 1, threads: 1, body: []byte(hello), text: true},
	{name: "twoloops", title: "hello, 64 connections, two loops or workers, nothing pinned", unit: "request",
		peers: helloServers, program: command, path: "/", conns: 64, smokeConns: 16, depth: 1, threads: 2, body: []byte(hello), text: true},
	{name: "bridge", title: "hello by one http.Handler, 64 connections", unit: "request",
		peers: bridgeServers, program: "bench/lwangoapp", path: httphello.Path, conns: 64, smokeConns: 16, depth: 1, threads: 1, body: []byte(hello), text: true},
	{name: "echo", title: "TCP echo of 1 KiB messages, 64 connections", kind: echo, unit: "message",
		peers: echoServers, program: "samples/echo", conns: 64, smokeConns: 16, threads: 1, body: pattern(1 << 10)},
	{name: "sleepers", title: "10,000 handlers that sleep at the same time and wake over 2 s", kind: sleepers, unit: "sleeping handler",
		peers: sleepServers, program: "bench/lwangoapp", path: "/sleep", conns: 10000, smokeConns: 200, threads: 1},
	{name: "php4", title: "hello.php, 4 clients, 4 workers, a connection per request", unit: "request",
		peers: queueing, program: command, path: helloScript, conns: 4, smokeConns: 4, depth: 1, threads: 1, body: []byte(hello), text: true,
		upstream: upstream{kind: phpFPM, workers: 4, backlog: 511}},
	{name: "php4kept", title: "hello.php, 4 clients, 4 workers, connections kept", unit: "request",
		peers: proxies, program: command, path: helloScript, conns: 4, smokeConns: 4, depth: 1, threads: 1, body: []byte(hello), text: true,
		upstream: upstream{kind: phpFPM, workers: 4, backlog: 511, kept: 4}},
	{name: "php64", title: "hello.php, 64 clients, 4 workers, a connection per request", unit: "request",
		peers: queueing, program: command, path: helloScript, conns: 64, smokeConns: 16, depth: 1, threads: 1, body: []byte(hello), text: true,
		upstream: upstream{kind: phpFPM, workers: 4, backlog: 511}},
	{name: "php64kept", title: "hello.php, 64 clients, 4 workers, connections kept", unit: "request",
		peers: proxies, program: command, path: helloScript, conns: 64, smokeConns: 16, depth: 1, threads: 1, body: []byte(hello), text: true,
		upstream: upstream{kind: phpFPM, workers: 4, backlog: 511, kept: 4}},
	{name: "proxy", title: "FastCGI to a trivial application, 64 clients, a connection per request", unit: "request",
		peers: proxies, program: command, path: helloScript, conns: 64, smokeConns: 16, depth: 1, threads: 1, body: []byte(hello), text: true,
		upstream: upstream{kind: goResponder}},
	{name: "proxykept", title: "FastCGI to a trivial application, 64 clients, connections kept", unit: "request",
		peers: proxies, program: command, path: helloScript, conns: 64, smokeConns: 16, depth: 1, threads: 1, body: []byte(hello), text: true,
		upstream: upstream{kind: goResponder, kept: 64}},
	{name: "download", title: "1 GiB from PHP", kind: bulk, unit: "transfer",
		peers: proxies, program: command, path: appPrefix + "/download.php", threads: 1, size: 1 << 30, smokeSize: 8 << 20,
		upstream: upstream{kind: phpFPM, workers: 1, backlog: 511}},
	{name: "upload", title: "1 GiB to PHP, spooled", kind: bulk, unit: "transfer",
		peers: proxies, program: command, path: appPrefix + "/upload.php", threads: 1, size: 1 << 30, smokeSize: 8 << 20, upload: true,
		upstream: upstream{kind: phpFPM, workers: 1, backlog: 511}},
	{name: "uploadstream", title: "1 GiB to PHP, streamed", kind: bulk, unit: "transfer",
		peers: proxies, program: command, path: appPrefix + "/upload.php", threads: 1, size: 1 << 30, smokeSize: 8 << 20, upload: true,
		upstream: upstream{kind: phpFPM, workers: 1, backlog: 511, streamed: true}},
	{name: "waiting", title: "2,000 requests that wait for an application, and another route meanwhile", kind: waiting, unit: "waiting request",
		peers: proxies, program: command, path: "/", conns: 2000, smokeConns: 100, depth: 1, threads: 1, body: []byte(hello), text: true,
		upstream: upstream{kind: goResponder}},
	{name: "burst", title: "6 requests at once for one PHP worker with a backlog of 1", kind: burst, unit: "burst",
		peers: queueing, program: command, path: appPrefix + "/slow.php", conns: 6, smokeConns: 6, depth: 1, threads: 1, body: []byte(hello), text: true,
		upstream: upstream{kind: phpFPM, workers: 1, backlog: 1}},
	{name: "idlews", title: "8,000 idle WebSockets in rooms of 10, after one message each", kind: wsIdle, unit: "idle WebSocket",
		peers: chatMemory, program: "bench/lwangoapp", path: chatrules.RoomPath, conns: 8000, smokeConns: 200, threads: 1},
	{name: "wsecho", title: "WebSocket echo of 125 bytes, 64 connections", kind: wsEcho, unit: "message",
		peers: chatServers, program: "bench/lwangoapp", path: chatrules.EchoPath, conns: 64, smokeConns: 16, threads: 1, body: letters(125)},
	{name: "room", title: "a room of 1,000, ten of whom say one thing a second each", kind: chat, unit: "delivery",
		peers: chatServers, program: "bench/lwangoapp", path: chatrules.RoomPath, conns: 1000, smokeConns: 100, threads: 1,
		chat: chatPlan{rooms: 1, talkers: 10, rate: 10, nap: 500 * time.Microsecond}},
	{name: "rooms", title: "20 rooms of 50, 200 messages/s in all", kind: chat, unit: "delivery",
		peers: chatServers, program: "bench/lwangoapp", path: chatrules.RoomPath, conns: 1000, smokeConns: 100, threads: 1,
		chat: chatPlan{rooms: 20, talkers: 5, rate: 200, nap: 500 * time.Microsecond}},
	{name: "quiet", title: "1,000 members in rooms of 10 of whom nobody speaks, then 20 messages/s in all", kind: chat, unit: "delivery",
		peers: chatServers, program: "bench/lwangoapp", path: chatrules.RoomPath, conns: 1000, smokeConns: 100, threads: 1,
		chat: chatPlan{rooms: 100, talkers: 1, rate: 20, watch: true}},
	{name: "goroutines", title: "a goroutine's answers, 500/s, beside 7,000 hello/s, two loops", kind: beside, unit: "probe",
		peers: bridgeServers, program: "bench/lwangoapp", path: "/", conns: 64, smokeConns: 16, depth: 1, threads: 2, body: []byte(hello), text: true,
		upstream: upstream{kind: httpServer}, neighbour: neighbour{path: "/", rate: 500, plain: true, load: 7000}},
	{name: "burning", title: "hello, 50/s, while two functions in Await compute, two loops", kind: beside, unit: "probe",
		peers: bridgeServers, program: "bench/lwangoapp", path: "/", conns: 64, smokeConns: 16, depth: 1, threads: 2, body: []byte(hello), text: true,
		upstream: upstream{kind: httpServer}, neighbour: neighbour{path: "/", rate: 50}},
	{name: "revproxy", title: "ReverseProxy over the bridge, 100/s, beside 7,000 hello/s, two loops", kind: beside, unit: "probe",
		peers: bridgeServers, program: "bench/lwangoapp", path: "/", conns: 64, smokeConns: 16, depth: 1, threads: 2, body: []byte(hello), text: true,
		upstream: upstream{kind: httpServer}, neighbour: neighbour{path: proxyPath, rate: 100, load: 7000}},
	{name: "redis", title: "a room of 20 at two servers, over Redis, 20 messages/s", kind: brokered, unit: "delivery",
		peers: brokerServers, program: "bench/lwangoapp", path: chatrules.RoomPath, conns: 20, smokeConns: 20, threads: 1,
		chat: chatPlan{rooms: 1, talkers: 4, rate: 20}},
}

func workNames() []string {
	var names []string
	for _, w := range works {
		names = append(names, w.name)
	}
	return names
}

func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223 // the linear congruential generator of Numerical Recipes
		b[i] = byte(x >> 24)
	}
	return b
}

// request is the bytes that the Go clients send; wrk's own request has the same two lines.
func (w work) request(addr string) []byte {
	one := "GET " + w.path + " HTTP/1.1\r\nHost: " + addr + "\r\n\r\n"
	return bytes.Repeat([]byte(one), w.depth)
}
