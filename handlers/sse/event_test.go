package sse_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/sse"
)

func TestAppendEvent(t *testing.T) {
	for _, c := range []struct {
		event sse.Event
		want  string
		why   string
	}{
		{sse.Event{Data: []byte("text")}, "data: text\n\n", "the least"},
		{sse.Event{ID: "7", Name: "news", Data: []byte("text"), Retry: 1500 * time.Millisecond},
			"id: 7\nevent: news\nretry: 1500\ndata: text\n\n", "all"},
		{sse.Event{Data: []byte("a\nb\rc\r\nd")}, "data: a\ndata: b\ndata: c\ndata: d\n\n",
			"every kind of line end"},
		{sse.Event{Data: []byte("a\n\rb")}, "data: a\ndata: \ndata: b\n\n", "LF CR is two"},
		{sse.Event{Data: []byte("a\n")}, "data: a\ndata: \n\n", "a line end at the end stays"},
		{sse.Event{Data: []byte("a\r")}, "data: a\ndata: \n\n", "the same with CR"},
		{sse.Event{Data: []byte("")}, "data: \n\n", "empty, but dispatched"},
		{sse.Event{Data: []byte(" indented")}, "data:  indented\n\n", "one space is the format's"},
		{sse.Event{Data: []byte("id: 8\n: no\n\nretry: 1")},
			"data: id: 8\ndata: : no\ndata: \ndata: retry: 1\n\n", "data cannot get out of its field"},
		{sse.Event{ID: "7"}, "id: 7\n\n", "an ID alone"},
		{sse.Event{Retry: 1}, "retry: 1\n\n", "rounded up: 0 would be a storm"},
		{sse.Event{Retry: time.Second}, "retry: 1000\n\n", "and not beyond"},
		{sse.Event{ID: " 7:", Name: ": x"}, "id:  7:\nevent: : x\n\n", "spaces and colons are values"},
	} {
		got, err := sse.AppendEvent([]byte("before"), c.event)
		if err != nil || string(got) != "before"+c.want {
			t.Errorf("%s: got %q, %v, want %q", c.why, got, err, c.want)
		}
	}
}

func TestAppendEventRefuses(t *testing.T) {
	data := []byte("text")
	for _, e := range []sse.Event{
		{Data: data, Name: "a\nb"},
		{Data: data, Name: "a\rb"},
		{Data: data, Name: "\n"},
		{Data: data, ID: "1\ndata: forged"},
		{Data: data, ID: "1\r"},
		{Data: data, ID: "1\x00"},
		{Data: data, ID: "\xff"},
		{Data: data, ID: strings.Repeat("x", 257)},
		{Data: data, Retry: -1},
	} {
		got, err := sse.AppendEvent([]byte("before"), e)
		if !errors.Is(err, sse.ErrEvent) || string(got) != "before" {
			t.Errorf("%+v: got %q, %v", e, got, err)
		}
	}
}

func TestAppendComment(t *testing.T) {
	for text, want := range map[string]string{
		"":           ": \n\n",
		"hello":      ": hello\n\n",
		"a\ndata: b": ": a\n: data: b\n\n",
		"a\r\nb\r":   ": a\n: b\n: \n\n",
	} {
		if got := string(sse.AppendComment(nil, text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// Whatever is sent arrives as it was meant, and nothing else does, with other events and comments
// around it.
func FuzzEvent(f *testing.F) {
	f.Add("1", "name", "a\r\nb\rc\nd", "comment", int64(1500), true)
	f.Add("", "", "", "\r", int64(0), true)
	f.Add("1", "", "", "a\ndata: x\n\n", int64(1), false)
	f.Add(" ", " ", " \n \n", "", int64(time.Hour), true)
	f.Add("1\n", "a\rb", "\uFEFFx", ":", int64(-1), true)
	f.Fuzz(func(t *testing.T, id, name, data, comment string, retry int64, dispatch bool) {
		first := sse.Event{ID: "first", Data: []byte("one")}
		e := sse.Event{ID: id, Name: name, Retry: time.Duration(retry)}
		if dispatch {
			e.Data = []byte(data)
		}
		out, err := sse.AppendEvent(nil, first)
		if err != nil {
			t.Fatal(err)
		}
		out, err = sse.AppendEvent(out, e)
		if err != nil && !errors.Is(err, sse.ErrEvent) {
			t.Fatal(err)
		}
		sent := err == nil
		out = sse.AppendComment(out, comment)
		if out, err = sse.AppendEvent(out, sse.Event{Name: "last", Data: []byte("two")}); err != nil {
			t.Fatal(err)
		}

		arrives := func(s string) string {
			s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
			return strings.ToValidUTF8(s, "\uFFFD")
		}
		want := []dispatched{{"first", "message", "one"}}
		last, wantRetry := "first", time.Duration(-1)
		if sent {
			if id != "" {
				last = id
			}
			if retry > 0 {
				wantRetry = (time.Duration(retry)-1)/time.Millisecond*time.Millisecond + time.Millisecond
			}
			if dispatch {
				d := dispatched{last, "message", arrives(data)}
				if name != "" {
					d.name = arrives(name)
				}
				want = append(want, d)
			}
		}
		want = append(want, dispatched{last, "last", "two"})
		got := parse(string(out))
		if !slices.Equal(got.events, want) || got.last != last || got.retry != wantRetry {
			t.Errorf("got %+v, last %q, retry %v\nwant %+v, last %q, retry %v\nof %q", got.events, got.last,
				got.retry, want, last, wantRetry, out)
		}
		if text := strings.Join(got.comments, "\n"); text != " "+
			strings.ReplaceAll(arrives(comment), "\n", "\n ") {
			t.Errorf("comment %q became %q", comment, text)
		}
	})
}

func BenchmarkAppendEvent(b *testing.B) {
	e := sse.Event{ID: "1732190000000-0",
		Data: []byte(`{"type":"message","room":"lobby","name":"Ann","text":"Hello, everybody"}`)}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = sse.AppendEvent(buf[:0], e)
	}
}
