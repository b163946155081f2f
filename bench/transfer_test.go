package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// bulkHandler does what the scripts do; change may spoil a download.
func bulkHandler(change func(p []byte) []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
			return
		}
		n, _ := strconv.Atoi(r.URL.Query().Get("bytes"))
		body := strings.Repeat("0123456789abcdef", n/16+1)[:n]
		w.Header().Set("Content-Length", strconv.Itoa(n))
		w.Write(change([]byte(body)))
	})
}

func transferOf(addr string, upload bool, size int64) job {
	return job{Addr: addr, Group: ownGroup, load: load{Path: "/x", Size: size, Upload: upload}}
}

func TestTransfer(t *testing.T) {
	addr := startHandler(t, bulkHandler(func(p []byte) []byte { return p }))
	for _, upload := range []bool{false, true} {
		f, err := attempt(loadTransfer, transferOf(addr, upload, 5_000_001))
		if _, ok := f["growth"]; !ok || err != nil || f["perSecond"] <= 0 || f["cpu"] <= 0 {
			t.Errorf("upload %v: %+v, %v", upload, f, err)
		}
	}
}

func TestTransferNoticesWrongBytes(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"one byte":  func(p []byte) []byte { p[len(p)-1] ^= 1; return p },
		"cut":       func(p []byte) []byte { return p[:len(p)-1] },
		"one twice": func(p []byte) []byte { copy(p[101:], p[100:]); return p },
	} {
		if _, err := attempt(loadTransfer,
			transferOf(startHandler(t, bulkHandler(change)), false, 100_000)); err == nil {
			t.Errorf("%s: passed", name)
		}
	}
	if _, err := attempt(loadTransfer,
		transferOf(startHandler(t, http.NotFoundHandler()), true, 10)); err == nil {
		t.Error("an upload to nowhere passed")
	}
}
