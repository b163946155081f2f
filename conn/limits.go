package conn

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/base/tags"
)

// Limits are the limits of a server: keys of its configuration, and fields of Config and of
// lwango.Server. Zero stands for the default, and -1, where the range has it, for no limit. A field
// is declared here, with its key, range, default and text, and is read where it acts; the rest, as
// the reference, comes from that. The upper ends of the ranges only catch typing errors.
type Limits struct {
	// KeepAliveTimeout is how long a connection may stay idle between two requests.
	KeepAliveTimeout time.Duration `toml:"keep_alive_timeout" min:"1ms" max:"24h" default:"15s"`
	// HeaderTimeout is for a whole request head, from its first byte.
	HeaderTimeout time.Duration `toml:"header_timeout" min:"1ms" max:"24h" default:"10s"`
	// BodyTimeout is between two reads of a request body.
	BodyTimeout time.Duration `toml:"body_timeout" min:"1ms" max:"24h" default:"30s"`
	// WriteTimeout is between two writes to a client that reads slowly; for an answer of HTTP/2 it may
	// be up to a quarter longer.
	WriteTimeout time.Duration `toml:"write_timeout" min:"1ms" max:"24h" default:"30s"`
	// MinRate is the bytes a second that a client must move, in each direction, while the server
	// waits for it, over the last 30 s, after 10 s; -1: any rate will do. What comes of a request body
	// after its answer has begun may come at any rate: a client may wait for the handler.
	MinRate int `toml:"min_rate" min:"-1" max:"1000000000" default:"500"`
	// MaxConnections bounds the connections of the server; beyond it the longest idle ones are
	// closed, and if there are none, newcomers get 503; 0: a third of the limit of open files; -1:
	// no limit. Several servers of a process should each have a part of the open files.
	MaxConnections int `toml:"max_connections" min:"-1" max:"100000000"`
	// MaxConnectionsPerAddress bounds the connections of an IPv4 address or an IPv6 /64; beyond it the
	// longest idle one of them is closed, and if there is none, newcomers get 503; 0: a quarter of
	// max_connections, and 8 at least; -1: no limit. The /64s of a /48 have at most sixteen times as
	// many, and half of max_connections. UNIX sockets and trusted proxies have no limit; of a
	// connection with a header of the PROXY protocol, the client's address counts.
	MaxConnectionsPerAddress int `toml:"max_connections_per_address" min:"-1" max:"100000000"`
	// MaxStreams bounds the requests of a connection of HTTP/2 that are under way at a time, those
	// included whose clients have given them up.
	MaxStreams int `toml:"http2_max_concurrent_streams" min:"1" max:"10000" default:"128"`
	// MaxHeaderSize is of a request head, which may have one field for each 64B of it, and 256 in
	// any case.
	MaxHeaderSize Size `toml:"max_header_size" min:"1KiB" max:"16MiB" default:"16KiB"`
	// MaxBodySize is of a request body; -1: no limit.
	MaxBodySize Size `toml:"max_body_size" min:"-1" max:"1TiB" default:"40MiB"`
	// MaxSpool bounds all temporary files together; -1: no limit. It is at least max_body_size, and
	// by default 4GiB, or four times max_body_size, if that is more. One client address has at most
	// as much of it as is free, and the slowest upload gives way when there is no room.
	MaxSpool Size `toml:"max_spool" min:"-1" max:"1024TiB"`
	// SpoolDir is the folder of temporary files; empty: what TMPDIR says, or else /tmp.
	SpoolDir string `toml:"spool_dir"`
}

var defaultLimits = tags.Defaults[Limits]()

// Complete returns l with the defaults. Requests can have bodies up to largest, see
// Config.LargestBodySize, and reserved descriptors are not for connections, see Config.Reserved.
func (l Limits) Complete(largest int64, reserved int) Limits {
	l = tags.Or(l, defaultLimits)
	l.MaxSpool = cmp.Or(l.MaxSpool, max(leastSpool, 4*max(l.MaxBodySize, Size(largest))))
	l.MaxConnections = cmp.Or(l.MaxConnections, connectionsFor(sysio.DescriptorLimit(), reserved))
	share := -1
	if l.MaxConnections > 0 {
		// No address can have all of them, and a household, or an office behind one address, does
		// not come near.
		share = max(l.MaxConnections/4, 8)
	}
	l.MaxConnectionsPerAddress = cmp.Or(l.MaxConnectionsPerAddress, share)
	return l
}

// leastSpool is the least that MaxSpool is by default.
const leastSpool = 4 << 30

// perConnection is how many descriptors a connection may hold: its own, that of a file which it
// downloads or which holds its request's body, and a connection to an upstream.
const perConnection = 3

// connectionsFor returns how many connections the descriptors suffice for. An idle connection holds
// a third of its part; but the clients choose how many of them work at once.
func connectionsFor(descriptors, reserved int) int {
	return max((descriptors-reserved)/perConnection, descriptors/8, 1)
}

// Size is a number of bytes in settings. In a file it is "16KiB" (powers of 1024: KiB, MiB, GiB,
// TiB), "16kB" (powers of 1000: kB, MB, GB, TB), "100B" or a plain integer. A bare "16k" is
// refused: it means 16,000 to some programs and 16,384 to others.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// UnmarshalText reads a size as it stands in a file, such as 16KiB. The case of units does not
// matter; it refuses fractions.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = parseSize(string(text))
	return err
}

func parseSize(s string) (Size, error) {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := s[len(digits):]
	factor := int64(1)
	if unit != "" {
		factor = 0
		for _, u := range sizeUnits {
			if ascii.EqualFold(u.name, unit) {
				factor = u.bytes
				break
			}
		}
		if factor == 0 {
			return 0, fmt.Errorf(
				"unknown unit %q: write one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB", unit)
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("expected a size such as \"16KiB\", found %q", s)
	}
	if n > math.MaxInt64/factor || n < math.MinInt64/factor {
		return 0, fmt.Errorf("%s is more than can be counted", s)
	}
	return Size(n * factor), nil
}

// String gives the shortest exact form in powers of 1024.
func (s Size) String() string {
	for _, u := range sizeUnits[:4] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}
