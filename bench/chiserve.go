package main

import (
	"encoding/json"
	"net"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/lwango/lwango/bench/tasks"
)

// serveChi is a REST service on chi and net/http as one writes it.
func serveChi(ln net.Listener) error {
	r := chi.NewRouter()
	r.Get("/", tasks.Hello)
	r.Get(tasks.ItemRoute, func(w http.ResponseWriter, r *http.Request) {
		item, ok := tasks.Items[chi.URLParam(r, "id")]
		if !ok {
			http.Error(w, "there is no such item", http.StatusNotFound)
			return
		}
		w.Header().Set("Server", "chi")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(item) // fails if the client has left
	})
	return (&http.Server{Handler: r, IdleTimeout: idleTimeout}).Serve(ln)
}
