package accesslog

import (
	"cmp"
	"crypto/tls"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/lwango/lwango/loop"
)

// Connection describes a connection of a [[stream]] that has ended.
type Connection struct {
	Remote   netip.AddrPort // of the client
	Time     time.Time      // of the end
	Duration time.Duration
	Received int64         // bytes from the client
	Sent     int64         // bytes to the client
	Name     string        // SNI; "": none
	Result   string        // how it has ended
	Key      string        // of the limit that has ended it; "": none has
	Limit    time.Duration // its value
	Upstream string        // as the configuration has it; "": none
	Connect  time.Duration // until the upstream was connected, including the wait for a slot

	TLSVersion, CipherSuite uint16 // of crypto/tls; 0: TLS was not ended here
}

// connectionFormat is lineFormat for connections.
type connectionFormat func(b []byte, e *Connection, c *clock) []byte

// LogConnection writes the line of a connection. It is called on the loop l.
func (c *Config) LogConnection(l *loop.Loop, e *Connection) {
	if c.to == nil {
		return
	}
	// The line is about no request, so it gets an empty entry.
	c.to.add(l, new(entry), func(b []byte, _ *entry, at *clock) []byte {
		return c.connection(b, e, at)
	})
}

// CheckStream is Check for the log of a [[stream]], whose lines have other fields. Only the path
// comes from all.
func (c *Config) CheckStream(dir string, all *Config) {
	if c.Off() {
		return
	}
	for _, key := range []string{"json", "if", "statuses"} {
		if c.Table.Has(key) {
			c.Table.Errorf(key, "is for requests; a stream has connections")
		}
	}
	if all != nil && all.Off() {
		all = nil
	}
	c.checkPath(dir, all)
	var err error
	if c.connection, err = parseConnectionFormat(c.Format); err != nil {
		c.Table.Errorf("format", "%v", err)
	}
}

// defaultConnectionFormat is the default format of streams.
const defaultConnectionFormat = `{remote} [{time}] "{sni}" {upstream} {bytes_in} {bytes} ` +
	`{duration} "{result}" {key} {limit}`

func parseConnectionFormat(format string) (connectionFormat, error) {
	if format == "json" {
		return appendConnectionJSON, nil
	}
	return parseText(cmp.Or(format, defaultConnectionFormat), `"json"`,
		slices.Sorted(maps.Keys(connectionFields)),
		func(name string) connectionFormat { return connectionFields[name] })
}

// connectionFields are the placeholders of a stream's format.
var connectionFields = map[string]connectionFormat{
	"remote": func(b []byte, e *Connection, _ *clock) []byte { return appendRemote(b, e.Remote) },
	"port": func(b []byte, e *Connection, _ *clock) []byte {
		return strconv.AppendUint(b, uint64(e.Remote.Port()), 10)
	},
	"time": func(b []byte, e *Connection, c *clock) []byte {
		return append(b, c.common(e.Time)...)
	},
	"time_iso8601": func(b []byte, e *Connection, c *clock) []byte { return c.appendISO(b, e.Time) },
	"sni": func(b []byte, e *Connection, c *clock) []byte {
		return appendOrDash(b, e.Name, c.limit)
	},
	"upstream": func(b []byte, e *Connection, c *clock) []byte {
		return appendOrDash(b, e.Upstream, c.limit)
	},
	"bytes_in": func(b []byte, e *Connection, _ *clock) []byte {
		return strconv.AppendInt(b, e.Received, 10)
	},
	"bytes": func(b []byte, e *Connection, _ *clock) []byte {
		return strconv.AppendInt(b, e.Sent, 10)
	},
	"duration": func(b []byte, e *Connection, _ *clock) []byte { return appendSeconds(b, e.Duration) },
	"connect":  func(b []byte, e *Connection, _ *clock) []byte { return appendSeconds(b, e.Connect) },
	"result": func(b []byte, e *Connection, c *clock) []byte {
		return appendOrDash(b, e.Result, c.limit)
	},
	"key": func(b []byte, e *Connection, c *clock) []byte { return appendOrDash(b, e.Key, c.limit) },
	"limit": func(b []byte, e *Connection, c *clock) []byte {
		return appendOrDash(b, e.limit(), c.limit)
	},
	"tls_version": func(b []byte, e *Connection, c *clock) []byte {
		return appendOrDash(b, versionName(e.TLSVersion), c.limit)
	},
}

// limit returns the limit in the form of the server's log, "" for none.
func (e *Connection) limit() string {
	if e.Key == "" {
		return ""
	}
	return e.Limit.String()
}

func versionName(v uint16) string {
	if v == 0 {
		return ""
	}
	return tls.VersionName(v)
}

// appendConnectionJSON appends an object.
func appendConnectionJSON(b []byte, e *Connection, c *clock) []byte {
	b = c.appendISO(append(b, `{"time":"`...), e.Time)
	b = appendRemote(append(b, `","remote":"`...), e.Remote)
	b = strconv.AppendUint(append(b, `","port":`...), uint64(e.Remote.Port()), 10)
	b = appendString(b, "sni", e.Name, c.limit)
	b = appendString(b, "upstream", e.Upstream, c.limit)
	b = appendSeconds(append(b, `,"connect":`...), e.Connect)
	b = strconv.AppendInt(append(b, `,"bytes_in":`...), e.Received, 10)
	b = strconv.AppendInt(append(b, `,"bytes":`...), e.Sent, 10)
	b = appendSeconds(append(b, `,"duration":`...), e.Duration)
	b = appendString(b, "result", e.Result, c.limit)
	b = appendMember(b, "key", e.Key, c.limit)
	b = appendMember(b, "limit", e.limit(), c.limit)
	b = appendString(b, "tls_version", versionName(e.TLSVersion), c.limit)
	return append(b, "}\n"...)
}
