package fastcgi

import (
	"sync"

	"github.com/lwango/lwango/fastcgi/internal/cgi"
)

const bufferSize = 32 << 10

// buffers are for bytes that move. Nobody who waits for an upstream to answer holds one.
var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

type buffer = *[bufferSize]byte

func takeBuffer() buffer { return buffers.Get().(buffer) }

// headers are for the time in which a response's header is coming in.
var headers = sync.Pool{New: func() any { return new(cgi.Header) }}

// fieldLists are for the time in which parameters are written.
var fieldLists = sync.Pool{New: func() any { return new([]cgi.Field) }}
