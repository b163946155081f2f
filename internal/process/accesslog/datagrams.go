package accesslog

import (
	"bytes"
	"cmp"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	syslogSocket  = "/dev/log"
	journalSocket = "/run/systemd/journal/socket"

	// datagramWait is how long a batch of lines may wait for room in a socket. The lines that are left
	// then are lost, since the loops' buffers have to be emptied.
	datagramWait = time.Second
	// datagramRecovery is how long a UDP socket must be without errors to count as recovered. An error
	// arrives one datagram late, if at all, so every other datagram seems to be sent where nothing
	// receives them.
	datagramRecovery = 10 * time.Second
)

// datagrams is a daemon that takes one datagram for each line. It may end and start again.
type datagrams struct {
	network, address string
	// frame appends what stands before a line.
	frame func(b []byte, severity int, now time.Time) []byte
	kind
	sendsLF bool // a line is sent with the LF at its end

	conn net.Conn // nil: none yet, or it was lost
	buf  []byte
}

// newDatagrams returns the daemon that path of a log names, or nil if it names none.
func newDatagrams(path string, k kind) *datagrams {
	switch kind, rest, _ := strings.Cut(path, ":"); kind {
	case "syslog":
		return newSyslog(rest, k)
	case "journald":
		return newJournal(rest, k)
	}
	return nil
}

// newSyslog sends lines to syslog. rest is the part of path after "syslog:".
func newSyslog(rest string, k kind) *datagrams {
	pid := strconv.Itoa(os.Getpid())
	path, local := strings.CutPrefix(rest, "unix:")
	if local || rest == "" {
		// The format of the C library, which every daemon reads (RFC 3164, without the name of the host).
		return &datagrams{network: "unixgram", address: cmp.Or(path, syslogSocket), kind: k,
			frame: func(b []byte, severity int, now time.Time) []byte {
				b = now.AppendFormat(k.appendPriority(b, severity), time.Stamp)
				return append(b, " lwango["+pid+"]: "...)
			}}
	}
	host, err := os.Hostname()
	if err != nil || host == "" || len(host) > 255 || strings.ContainsAny(host, " \t\n") {
		host = "-"
	}
	// RFC 5424 section 6, in a datagram of RFC 5426.
	return &datagrams{network: "udp", address: rest, kind: k,
		frame: func(b []byte, severity int, now time.Time) []byte {
			b = append(k.appendPriority(b, severity), "1 "...)
			b = now.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
			return append(b, " "+host+" lwango "+pid+" "+k.msgID+" - "...)
		}}
}

// appendPriority appends what both formats of syslog begin with.
func (k kind) appendPriority(b []byte, severity int) []byte {
	return append(strconv.AppendInt(append(b, '<'), int64(k.facility<<3+severity), 10), '>')
}

// newJournal sends lines to journald, in its native protocol: fields, each on a line. rest is the
// path of its socket; "": the usual one.
func newJournal(rest string, k kind) *datagrams {
	return &datagrams{network: "unixgram", address: cmp.Or(rest, journalSocket), sendsLF: true,
		kind: k, frame: func(b []byte, severity int, _ time.Time) []byte {
			b = strconv.AppendInt(append(b, "PRIORITY="...), int64(severity), 10)
			return append(b, "\nSYSLOG_IDENTIFIER=lwango\nMESSAGE="...)
		}}
}

// checkSyslog checks the part of path after "syslog:".
func checkSyslog(rest string) error {
	if rest == "" || strings.HasPrefix(rest, "unix:") {
		return nil
	}
	host, port, err := net.SplitHostPort(rest)
	if n, e := strconv.Atoi(port); err != nil || e != nil || host == "" || n < 1 || n > 65535 {
		return errors.New(`expected "syslog:", "syslog:unix:/path/of/a/socket" or ` +
			`"syslog:host:port", found "syslog:` + rest + `"`)
	}
	return nil
}

// write implements sink. If the connection is lost, it connects again once.
func (d *datagrams) write(lines []byte, _ bool) (lost int, first error) {
	now := time.Now()
	until := now.Add(datagramWait)
	again := d.conn != nil
	if again {
		_ = d.conn.SetWriteDeadline(until)
	}
	for len(lines) > 0 {
		line := lines[:bytes.IndexByte(lines, '\n')+1]
		err := d.send(line, now, until)
		if err == nil {
			lines = lines[len(line):]
			continue
		}
		if d.conn == nil && again {
			again = false
			continue
		}
		if first == nil {
			first = err
		}
		if d.conn == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			return lost + bytes.Count(lines, []byte{'\n'}), first
		}
		lost++ // too long, perhaps, or of UDP: the next one may be taken
		lines = lines[len(line):]
	}
	return lost, first
}

// send sends one line. It drops a connection whose error shows that it cannot be used any more.
func (d *datagrams) send(line []byte, now, until time.Time) (err error) {
	if d.conn == nil {
		dialer := net.Dialer{Deadline: until}
		if d.conn, err = dialer.Dial(d.network, d.address); err != nil {
			d.conn = nil
			return err
		}
		_ = d.conn.SetWriteDeadline(until)
	}
	if !d.sendsLF {
		line = line[:len(line)-1]
	}
	d.buf = append(d.frame(d.buf[:0], d.severity(line), now), line...)
	_, err = d.conn.Write(d.buf)
	if err != nil && d.network != "udp" && !errors.Is(err, syscall.EMSGSIZE) &&
		!errors.Is(err, os.ErrDeadlineExceeded) {
		_ = d.conn.Close()
		d.conn = nil
	}
	return err
}

func (d *datagrams) recoveryTime() time.Duration {
	if d.network == "udp" {
		return datagramRecovery
	}
	return 0
}

func (d *datagrams) close() error {
	if d.conn == nil {
		return nil
	}
	return d.conn.Close()
}
