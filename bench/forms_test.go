package main

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// Forms are what they are to be, and a server that loses a byte is noticed.
func TestLoadForms(t *testing.T) {
	lost := int64(0)
	addr := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form, err := r.MultipartReader()
		if err != nil {
			t.Error(err)
			return
		}
		part, err := form.NextPart()
		if err != nil || part.FileName() != "large.bin" {
			t.Error(err)
			return
		}
		n, _ := io.Copy(io.Discard, part)
		if _, err := form.NextPart(); err != io.EOF {
			t.Error("more than a file:", err)
		}
		fmt.Fprint(w, n-lost)
	}))
	j := jobAt(addr, 2, 1, 100, 100*time.Millisecond)
	j.Size, j.Upload = 1_000_001, true
	if f, err := attempt(loadForms, j); err != nil || f["forms"] <= 0 {
		t.Errorf("%v, %v", f, err)
	}
	lost = 1
	if _, err := attempt(loadForms, j); err == nil {
		t.Error("a lost byte passes")
	}
}
