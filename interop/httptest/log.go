package httptest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
)

// LogVar is the environment variable that names a file. Each request adds a line to it: the package
// and the name of the test, and the way that the request took.
const LogVar = "LWANGO_INTEROP_LOG"

var logFile = sync.OnceValue(func() *os.File {
	name := os.Getenv(LogVar)
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	return f
})

func record(test, way string) {
	if f := logFile(); f != nil {
		if _, err := fmt.Fprintf(f, "%s %s\n", test, way); err != nil {
			panic(err)
		}
	}
}

// caller is the test that calls, "package.TestName", or "?" on a goroutine that runs no code of
// one.
func caller() string {
	pc := make([]uintptr, 64)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	name := "?"
	for {
		f, more := frames.Next()
		dir, rest := "", f.Function
		if i := strings.LastIndexByte(rest, '/'); i >= 0 {
			dir, rest = rest[:i+1], rest[i+1:]
		}
		if pkg, fn, ok := strings.Cut(rest, "."); ok && strings.HasPrefix(fn, "Test") {
			fn, _, _ = strings.Cut(fn, ".")
			name = dir + strings.TrimSuffix(pkg, "_test") + "." + fn
		}
		if !more {
			return name
		}
	}
}
