package main

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// sleeping counts net/http's handlers that sleep now.
var sleeping atomic.Int64

// sleepNetHTTP does what lwangoapp's handler does, with time.Sleep.
func sleepNetHTTP(w http.ResponseWriter, r *http.Request) {
	ms, err := strconv.Atoi(r.URL.Query().Get("ms"))
	if err != nil || ms < 0 {
		http.Error(w, "ms", http.StatusBadRequest)
		return
	}
	d := time.Duration(ms) * time.Millisecond
	sleeping.Add(1)
	start := time.Now()
	time.Sleep(d)
	late := time.Since(start) - d
	others := sleeping.Add(-1)
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "%d %d", late.Microseconds(), others+1)
}
