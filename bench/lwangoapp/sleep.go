package main

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango"
)

// sleeping counts the handlers that sleep now, on all loops.
var sleeping atomic.Int64

// sleep sleeps for the query's ms milliseconds and answers by how many microseconds it woke late, and how many slept at
// that time.
func sleep(req *lwango.Request, resp *lwango.Response) int {
	ms, err := strconv.Atoi(req.Query().Get("ms"))
	if err != nil || ms < 0 {
		return http.StatusBadRequest
	}
	d := time.Duration(ms) * time.Millisecond
	sleeping.Add(1)
	start := time.Now()
	err = req.Sleep(d)
	late := time.Since(start) - d
	others := sleeping.Add(-1)
	if err != nil {
		return http.StatusInternalServerError // the client has left, and will not see this
	}
	resp.Header().Set("Content-Type", "text/plain")
	resp.WriteString(strconv.FormatInt(late.Microseconds(), 10) + " " + strconv.FormatInt(others+1, 10))
	return http.StatusOK
}
