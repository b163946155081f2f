package httptest

import (
	"net/http"
	"sync"
)

// Some tests call no handler: they give a recorder to what writes to a ResponseWriter. For them a
// request is on its way while they write, and its ResponseWriter stands for the recorder until they
// look at that.

// flights are these requests, by their recorders.
var flights sync.Map // *ResponseRecorder: *flight

type flight struct {
	call   *call
	w      http.ResponseWriter
	land   chan struct{} // closed: the handler may return
	answer *answer
	err    error
	over   chan struct{} // closed: answer and err are set
}

// Writer returns a ResponseWriter of lwango, of which rec records what it writes.
func Writer(rec *ResponseRecorder) http.ResponseWriter {
	if rec == nil {
		return rec
	}
	if f, ok := flights.Load(rec); ok {
		return f.(*flight).w
	}
	record(caller(), "writer")
	f := &flight{land: make(chan struct{}), over: make(chan struct{})}
	begun := make(chan http.ResponseWriter)
	f.call = &call{r: NewRequest("GET", "/", nil), rec: rec, done: make(chan struct{}),
		serve: func(w http.ResponseWriter, _ *http.Request) {
			begun <- w
			<-f.land
		}}
	go func() {
		defer close(f.over)
		f.answer, f.err = f.call.roundTrip()
	}()
	select {
	case f.w = <-begun:
	case <-f.over:
		panic(f.err)
	}
	flights.Store(rec, f)
	return f.w
}

// Done ends the request whose ResponseWriter stands for rec, if there is one, and returns rec,
// which has recorded the answer then.
func Done(rec *ResponseRecorder) *ResponseRecorder {
	if f, ok := flights.LoadAndDelete(rec); ok {
		f := f.(*flight)
		close(f.land)
		<-f.over
		if f.err != nil {
			http.Error(rec, "interop: "+f.err.Error(), http.StatusBadGateway)
		} else {
			f.call.store(f.answer)
		}
	}
	return rec
}

// Header returns the header of rec, or of the ResponseWriter that stands for it.
func Header(rec *ResponseRecorder) http.Header {
	if f, ok := flights.Load(rec); ok {
		return f.(*flight).w.Header()
	}
	return rec.Header()
}

// replace gives rec back: what has been written to the ResponseWriter that stands for it is dropped
// if it is nothing.
func replace(rec *ResponseRecorder) {
	f, ok := flights.Load(rec)
	if !ok {
		return
	}
	if header := f.(*flight).w.Header(); len(header) > 0 {
		Done(rec)
		return
	}
	flights.Delete(rec)
	close(f.(*flight).land)
}
