package handlers_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
)

// registers calls Handle, and reports whether it did not panic.
func registers(handle func()) (ok bool, text string) {
	defer func() {
		if p := recover(); p != nil {
			ok, text = false, fmt.Sprint(p)
		}
	}()
	handle()
	return true, ""
}

// pick returns one of the words of a list; "-" is the empty one.
func pick(r *rand.Rand, words string) string {
	all := strings.Fields(words)
	w := all[r.IntN(len(all))]
	if w == "-" {
		return ""
	}
	return w
}

// randomPattern makes a pattern, mostly a valid one.
func randomPattern(r *rand.Rand) string {
	var b strings.Builder
	if m := pick(r, "- - - GET GET HEAD POST PUT"); m != "" {
		b.WriteString(m + " ")
	}
	b.WriteString(pick(r, "- - - - a.com b.com"))
	n := r.IntN(4)
	for i := range n {
		b.WriteString("/")
		switch {
		case i < n-1 || r.IntN(3) > 0:
			b.WriteString(pick(r, "a a b b c %61 a%2Fb d%20e {v} {w} {x} {y} {v}z"))
		default:
			b.WriteString(pick(r, "{r...} {$} {s...} {v...}"))
		}
	}
	if n == 0 || r.IntN(3) == 0 {
		b.WriteString("/")
	}
	return b.String()
}

// randomPath makes the path of a request that is clean but for its encoding.
func randomPath(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(5) {
		b.WriteString("/" + pick(r, "a a b b c %61 a%2Fb a%2fb d%20e e%25f %C3%A9 .a a.. ~"))
	}
	if b.Len() == 0 || r.IntN(3) == 0 {
		b.WriteString("/")
	}
	return b.String()
}

// TestPatternsAreThoseOfServeMux registers random patterns here and there: the same ones are
// refused. Then the same requests meet the same pattern, with the same values, or the same refusal.
func TestPatternsAreThoseOfServeMux(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 14))
	t.Logf("seed %d", seed)
	seen := map[string]int{}
	for range 2000 {
		ours, theirs := handlers.NewMux(), http.NewServeMux()
		var all []string
		for range 1 + r.IntN(10) {
			p := randomPattern(r)
			answer := func(w http.ResponseWriter, req *http.Request) {
				for _, name := range strings.Fields("r s v w x y") {
					if v := req.PathValue(name); v != "" {
						w.Header().Set(name, v)
					}
				}
				w.Header().Set("Pattern", req.Pattern)
			}
			wanted, why := registers(func() { theirs.HandleFunc(p, answer) })
			got, text := registers(func() {
				ours.Handle(p, func(*conn.Request, *conn.Response) int { return 200 })
			})
			if got != wanted {
				t.Fatalf("%q behind %q: registered %v, by ServeMux %v\n%s\n%s", p, all, got, wanted, text, why)
			}
			if got {
				all = append(all, p)
			} else if strings.Contains(text, "conflict") {
				seen["conflict"]++
			}
		}
		for range 40 {
			method := pick(r, "GET GET HEAD POST PUT DELETE OPTIONS")
			host, path := pick(r, "a.com b.com c.com a.com:80"), randomPath(r)
			req := httptest.NewRequest(method, "http://x"+path, nil)
			req.Host = host
			w := httptest.NewRecorder()
			theirs.ServeHTTP(w, req)
			values := map[string]string{}
			for name, v := range w.Header() {
				if len(name) == 1 {
					values[strings.ToLower(name)] = v[0]
				}
			}
			pattern, got, status, allow := ours.Look(method, host, path)
			for name, v := range got {
				if v == "" { // PathValue does not tell an empty one from none
					delete(got, name)
				}
			}
			seen[fmt.Sprint(status)]++
			if status != w.Code || status == 200 && pattern != w.Header().Get("Pattern") ||
				status == 200 && !maps.Equal(got, values) || allow != w.Header().Get("Allow") {
				t.Fatalf("%q: %s %s %s:\ngot %d %q %v, Allow %q\nServeMux %d %v", all, method, host, path,
					status, pattern, got, allow, w.Code, w.Header())
			}
		}
	}
	for _, what := range strings.Fields("conflict 200 307 404 405") {
		if seen[what] < 100 {
			t.Errorf("%s came %d times only", what, seen[what])
		}
	}
}
