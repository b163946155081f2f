package fastcgi

import (
	"sync"

	"github.com/lwango/lwango/fastcgi/internal/cgi"
	"github.com/lwango/lwango/fastcgi/internal/wire"
)

const bufferSize = 32 << 10

// buffers are for bytes that move. A call that waits for an upstream's answer holds none.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

type buffer = *[bufferSize]byte

func takeBuffer() buffer { return buffers.Get().(buffer) }

// headers are for the time in which a response's header comes in.
var headers = sync.Pool{New: func() any { return new(cgi.Header) }}

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
