package cgi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/cgi"
)

// TestRepeatBehindMany: a field that comes again, written in another way, joins the first one,
// however many others come between them: few are compared with each other, and many are sorted.
func TestRepeatBehindMany(t *testing.T) {
	for _, between := range []int{0, 1, 30, 31, 32, 33, 64, 300} {
		r := base()
		r.Host, r.Underscores = "", true
		fields := cgi.List{{Name: "X-Same_Name", Value: "1"}}
		want := []string{"X_SAME_NAME=1, 2"}
		for i := range between {
			name := fmt.Sprintf("X-%09d", i) // of the same length and first letter
			fields = append(fields, cgi.Field{Name: name, Value: "v"})
			want = append(want, strings.ReplaceAll(name, "-", "_")+"=v")
		}
		r.Fields = append(fields, cgi.Field{Name: "x_same-name", Value: "2"})
		list, err := params(t, &r)
		if got := httpOnly(list); got != strings.Join(want, "\n") || err != nil {
			t.Errorf("%d between: %v\n got %q\nwant %q", between, err, got, want)
		}
	}
}
