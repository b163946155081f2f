package sse_test

import (
	"strconv"
	"strings"
	"time"
)

// dispatched is an event as a script in the browser gets it.
type dispatched struct{ id, name, data string }

// parser interprets an event stream step by step as WHATWG HTML section 9.2.6 tells it, and knows
// nothing of how ours are made.
type parser struct {
	events   []dispatched
	comments []string
	retry    time.Duration // reconnection time, -1: unchanged

	data, name, id string // the standard's buffers
	last           string // last event ID
}

func parse(stream string) *parser {
	p := &parser{retry: -1}
	// nearly "UTF-8 decode", which may replace a run by more than one
	stream = strings.ToValidUTF8(stream, "\uFFFD")
	stream = strings.TrimPrefix(stream, "\uFEFF")
	for len(stream) > 0 {
		end := strings.IndexAny(stream, "\r\n")
		if end < 0 {
			break // "Once the end of the file is reached, any pending data must be discarded."
		}
		line, after := stream[:end], end+1
		if strings.HasPrefix(stream[end:], "\r\n") {
			after++
		}
		stream = stream[after:]
		p.line(line)
	}
	return p
}

func (p *parser) line(line string) {
	if line == "" {
		p.dispatch()
		return
	}
	if comment, ok := strings.CutPrefix(line, ":"); ok {
		p.comments = append(p.comments, comment)
		return
	}
	field, value, _ := strings.Cut(line, ":")
	p.field(field, strings.TrimPrefix(value, " "))
}

func (p *parser) field(name, value string) {
	switch name {
	case "event":
		p.name = value
	case "data":
		p.data += value + "\n"
	case "id":
		if !strings.Contains(value, "\x00") {
			p.id = value
		}
	case "retry":
		if value != "" && strings.Trim(value, "0123456789") == "" {
			if ms, err := strconv.ParseInt(value, 10, 64); err == nil {
				p.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

func (p *parser) dispatch() {
	p.last = p.id
	if p.data == "" {
		p.name = ""
		return
	}
	e := dispatched{id: p.last, name: p.name, data: strings.TrimSuffix(p.data, "\n")}
	if e.name == "" {
		e.name = "message"
	}
	p.events = append(p.events, e)
	p.data, p.name = "", ""
}
