package fastcgi

import (
	"sync"

	"github.com/lwango/lwango/fastcgi/internal/wire"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// params are for the time in which a call writes its parameters. On the stack they would make that
// grow, for as long as the request lasts.
type params struct {
	cgi.Request
	head wire.Head
}

// reset drops all that b holds except the lists' memory.
func (b *params) reset() {
	b.head = wire.Head{}
	b.Request.Reset()
}

var paramsPool = sync.Pool{New: func() any { return new(params) }}
