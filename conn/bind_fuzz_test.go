package conn_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

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
