package conn_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// TestRequestShowsItsWaits: a Request has all methods of its thread, so that its documentation
// shows them, except those that are for the bodies of threads and would harm the connection.
func TestRequestShowsItsWaits(t *testing.T) {
	notForHandlers := []string{"End", "FD", "Mark", "RunDeferred", "WantRead", "WantReadWrite",
		"WantWrite"}
	signature := func(m reflect.Method) (types []reflect.Type) {
		for i := 1; i < m.Type.NumIn(); i++ {
			types = append(types, m.Type.In(i))
		}
		for result := range m.Type.Outs() {
			types = append(types, result)
		}
		return types
	}
	request := reflect.TypeFor[*conn.Request]()
	for m := range reflect.TypeFor[*loop.Thread]().Methods() {
		own, has := request.MethodByName(m.Name)
		switch {
		case slices.Contains(notForHandlers, m.Name):
			if has {
				t.Errorf("a handler can call Request.%s", m.Name)
			}
		case m.Name == "Layer": // each has its own
		case !has:
			t.Errorf("Request has no method %s, which is one of its thread", m.Name)
		case !slices.Equal(signature(own), signature(m)):
			t.Errorf("%s is %v with a Request and %v with a Thread", m.Name, own.Type, m.Type)
		}
	}
	for field := range request.Elem().Fields() {
		if field.Anonymous && reflect.PointerTo(field.Type).NumMethod() > 0 {
			t.Errorf("Request embeds %s, whose methods go doc does not show", field.Name)
		}
	}
}
