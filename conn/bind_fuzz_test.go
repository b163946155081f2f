package conn_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
)

// FuzzBindJSON: what BindJSON takes is JSON, what it refuses is not, or is too deep, and the error
// says where.
func FuzzBindJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, "x\"[", null]}`, "[", "", " \n", "[[[[]]]]", `"\\"`, "1 2", "{\"a\":\n\x00}", "\xff",
		strings.Repeat("[", 257) + strings.Repeat("]", 257), strings.Repeat(`{"a":`, 256) + "1" + strings.Repeat("}", 256)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var loose, strict any
		err, strictly := conn.DecodeJSON([]byte(text), &loose, false), conn.DecodeJSON([]byte(text), &strict, true)
		if (err == nil) != (strictly == nil) { // a value of no struct has no unknown fields
			t.Errorf("%v, strictly %v", err, strictly)
		}
		if err == nil {
			if !json.Valid([]byte(text)) {
				t.Error("taken, and no JSON")
			}
			return
		}
		var bad *conn.BindError
		if !errors.As(err, &bad) || bad.Status != 400 || len(err.Error()) > 300 {
			t.Fatalf("%T %v", err, err)
		}
		if json.Valid([]byte(text)) && !strings.Contains(err.Error(), "more than 256 levels") {
			var v any
			if json.Unmarshal([]byte(text), &v) == nil {
				t.Errorf("refused: %v", err)
			}
		}
	})
}

// FuzzBindValues: whatever a query is, fields are set or the error is one for the client.
func FuzzBindValues(f *testing.F) {
	for _, s := range []string{"q=x&n=1&n=2&on=on&d=1m&at=2026-11-22T00:00:00Z", "q=", "n=&n=256&q=x", "q=%zz", "on=maybe&q=1", "d=-1&q=;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		before := maps.Clone(values)
		var in struct {
			Q  string        `form:"q,required"`
			N  []uint8       `form:"n"`
			On bool          `form:"on"`
			D  time.Duration `form:"d"`
			At *time.Time    `form:"at"`
			F  float32       `form:"f"`
		}
		err = conn.BindValues(&in, values)
		var bad *conn.BindError
		switch {
		case err == nil && (in.Q == "" || in.Q != values.Get("q")):
			t.Errorf("%q of %q", in.Q, query)
		case err != nil && (!errors.As(err, &bad) || bad.Status != 400 || bad.Field == "" || len(err.Error()) > 600):
			t.Errorf("%T %v", err, err)
		}
		if !maps.EqualFunc(before, values, slices.Equal) {
			t.Error("the values were changed")
		}
	})
}
