package asynclog

import (
	"context"
	"encoding"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"unicode/utf8"
)

const (
	// maxText is how many bytes of a line the text of an attribute takes, with its escapes: enough
	// for any honest path or error.
	maxText = 256
	// maxLong is the same for the attributes of longNames, and for priority lines.
	maxLong = 16 << 10
)

// longNames are attributes that no client writes: a stack, and the message of an application, which
// is bounded where it is read.
var longNames = map[string]bool{"stack": true, "suspended": true, "message": true}

// handler is a slog.Handler that forms lines as slog.TextHandler does, or slog.JSONHandler.
type handler struct {
	log      *Log
	lines    format // with the attributes and groups so far
	priority format // the same, with the room for priority lines
	limited  bool
}

// format forms lines in the format that the log has then.
type format struct {
	log        *Log
	text, json slog.Handler
}

// format returns a format that writes to w and shows limit bytes of an attribute's text.
func (l *Log) format(w io.Writer, limit int) format {
	cut := func(_ []string, a slog.Attr) slog.Attr { return cutAttr(a, limit) }
	options := &slog.HandlerOptions{ReplaceAttr: cut, Level: &l.level}
	return format{l, slog.NewTextHandler(w, options), slog.NewJSONHandler(w, options)}
}

func (f format) now() slog.Handler {
	if f.log.json.Load() {
		return f.json
	}
	return f.text
}

func (f format) withAttrs(attrs []slog.Attr) format {
	return format{f.log, f.text.WithAttrs(attrs), f.json.WithAttrs(attrs)}
}

func (f format) withGroup(name string) format {
	return format{f.log, f.text.WithGroup(name), f.json.WithGroup(name)}
}

// Logger returns a logger that writes to l.
func (l *Log) Logger() *slog.Logger {
	return slog.New(&handler{log: l, lines: l.format(writer{l, room, true}, maxText),
		priority: l.format(writer{l, room + priorityRoom, false}, maxLong), limited: true})
}

// Of returns the Log that a logger writes to, nil if it is another kind of logger.
func Of(logger *slog.Logger) *Log {
	if h, ok := logger.Handler().(*handler); ok {
		return h.log
	}
	return nil
}

// Priority returns a logger for lines about the program itself, such as its start and its end: they
// are not limited in rate, their text may be longer, and there is room for them when the queue is
// full of other lines. A logger of another kind is returned as it is.
func Priority(logger *slog.Logger) *slog.Logger {
	if h, ok := logger.Handler().(*handler); ok {
		return slog.New(&handler{log: h.log, lines: h.priority, priority: h.priority})
	}
	return logger
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.lines.now().Enabled(ctx, level)
}

// Handle implements slog.Handler. It does not wait.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	// A message may have any length, and rates remembers it, so it gets only what the line shows.
	if h.limited && !h.log.rate.allow(cut(r.Message, maxText)) {
		return nil
	}
	return h.lines.now().Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.log, h.lines.withAttrs(attrs), h.priority.withAttrs(attrs), h.limited}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.log, h.lines.withGroup(name), h.priority.withGroup(name), h.limited}
}

// cutAttr cuts the text of an attribute to limit bytes of a line, unless it is one of longNames.
func cutAttr(a slog.Attr, limit int) slog.Attr {
	if longNames[a.Key] {
		limit = maxLong
	}
	switch a.Value.Kind() {
	case slog.KindString:
		if s := a.Value.String(); len(s) > limit/widest {
			a.Value = slog.StringValue(cut(s, limit))
		}
	case slog.KindDuration: // of which JSONHandler makes a number without a unit
		a.Value = slog.StringValue(a.Value.Duration().String())
	case slog.KindAny:
		if level, ok := a.Value.Any().(slog.Level); ok {
			return slog.Any(a.Key, level)
		}
		a.Value = slog.StringValue(cut(text(a.Value.Any()), limit))
	}
	return a
}

// text returns a value as slog.TextHandler writes it.
func text(v any) (s string) {
	defer func() {
		if p := recover(); p != nil { // a method of a nil pointer, for instance
			s = fmt.Sprintf("!PANIC: %v", p)
		}
	}()
	switch v := v.(type) {
	case error:
		return v.Error()
	case encoding.TextMarshaler:
		b, err := v.MarshalText()
		if err != nil {
			return "!ERROR: " + err.Error()
		}
		return string(b)
	case []byte:
		return string(v)
	}
	return fmt.Sprintf("%+v", v)
}

const more = "..."

// cut returns the beginning of s that takes at most limit bytes of a line, escapes included.
func cut(s string, limit int) string {
	if len(s) <= limit/widest {
		return s
	}
	fits, taken := 0, 0 // fits: where to cut, so that more has room
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		taken += width(r, n)
		if taken > limit {
			return s[:fits] + more
		}
		i += n
		if taken <= limit-len(more) {
			fits = i
		}
	}
	return s
}

// widest is how many bytes of a line a byte takes at most: \u0001 in JSON.
const widest = 6

// width returns how many bytes of a line a character of n bytes takes at most, in either format:
// strconv.Quote or encoding/json may escape it.
func width(r rune, n int) int {
	switch {
	case r == '"' || r == '\\':
		return 2
	case r == utf8.RuneError && n == 1, r < ' ', r == 0x7f, r == '<', r == '>', r == '&':
		return widest
	case !strconv.IsPrint(r):
		return max(n, len(`\U0010ffff`))
	}
	return n
}
