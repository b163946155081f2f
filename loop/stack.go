package loop

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"

	"github.com/lwango/lwango/coro"
)

// loopLabel is the profiler label of a loop's goroutines.
const loopLabel = "lwango-loop"

// Functions that a stack is recognised by, as a profile names them, inlined or not.
var (
	coroPackage = reflect.TypeFor[coro.Coro]().PkgPath()
	loopLead    = reflect.TypeFor[Loop]().PkgPath() + ".(*Loop).lead"
	inPlaceRun  = reflect.TypeFor[Loop]().PkgPath() + ".(*" + inPlaceName + ").Run"
	inPlaceName = reflect.TypeFor[helper]().Name()
	coroMain    = coroPackage + ".(*Coro).main"
	handoff     = coroPackage + ".(*transport).switch" // switchIn, switchOut, switchFinal
)

const (
	cutDepth  = 128 // addresses of a stack that a profile has at most; it lacks the outer ones
	maxFrames = 32  // in the log
)

// frame is one call of a stack; a stack begins with the innermost.
type frame struct{ function, position string }

type stack []frame

// runningStack returns the stack of the code that runs on the named loop at the moment, or nil if
// it is not found, and those of the threads of all loops that wait.
//
// The stack comes from the goroutine profile in text form, which is the only form that has labels
// and can be read without a library. With 10,000 goroutines the profile takes 40 ms, but it stops
// the process for a moment only. runtime.Stack stops the process until the last stack is printed:
// for 90 ms.
func runningStack(name string) (runs stack, suspended []stack) {
	var text bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1)
	mine := fmt.Sprintf("%q:%q", loopLabel, name)
	most := 0
	for record := range strings.SplitSeq(text.String(), "\n\n") {
		switch s, weight := parseRecord(record, mine); {
		case weight < 0:
			suspended = append(suspended, s)
		case weight > most:
			runs, most = s, weight
		}
	}
	return runs, suspended
}

// parseRecord reads one record of the profile, which stands for all goroutines with the same stack
// and labels. The weight says how likely it is the one that holds up the loop:
//
//	3  a coroutine of this loop that is not in a handoff: there is at most one
//	2  the loop's own goroutine, not in a handoff: it acts on events, posted functions, timers
//	1  what may be the coroutine: a handler has replaced our label by one of its own, or the
//	   stack is too deep for the profile to show where it began
//	-1 a coroutine, of any loop, in a handoff: its thread waits, and may hold what others need
//
// There may be no such record: on a busy machine, control can be on its way to or from a coroutine
// for long. A goroutine that a handler has started inherits the label as well, and has neither
// root.
func parseRecord(record, mine string) (s stack, weight int) {
	var ours, labelled, run, main, waits, placed bool
	head, rest, _ := strings.Cut(record, "\n") // "1 @" and the addresses
	for line := range strings.SplitSeq(rest, "\n") {
		if labels, ok := strings.CutPrefix(line, "# labels: "); ok {
			ours = strings.Contains(labels, mine)
			labelled = strings.Contains(labels, loopLabel)
		}
		// "#", address, function+offset, file:line, with one tab or more between them.
		fields := strings.FieldsFunc(line, func(r rune) bool { return r == '\t' })
		if len(fields) != 4 || fields[0] != "#" {
			continue
		}
		f := frame{fields[2], fields[3]}
		if i := strings.LastIndexByte(f.function, '+'); i >= 0 {
			f.function = f.function[:i]
		}
		run = run || f.function == loopLead
		placed = placed || f.function == inPlaceRun
		main = main || f.function == coroMain
		waits = waits || strings.HasPrefix(f.function, handoff)
		s = append(s, f)
	}
	switch {
	case placed: // the loop does not wait for it for long
	case waits && labelled && main:
		weight = -1
	case waits:
	case ours && main:
		weight = 3
	case ours && run:
		weight = 2
	case !labelled && main, ours && strings.Count(head, " 0x") >= cutDepth:
		weight = 1
	}
	return s, weight
}

// place returns where a stack is in code that its author can change: neither the standard library's
// nor the handoff's.
func (s stack) place() string {
	for _, f := range s {
		if p := packageOf(f.function); p != coroPackage && !standard(p) {
			return f.position
		}
	}
	return s[0].position
}

// String returns a line for each call.
func (s stack) String() string {
	var b strings.Builder
	for _, f := range s[:min(len(s), maxFrames)] {
		fmt.Fprintf(&b, "%s %s\n", f.function, f.position)
	}
	return b.String()
}

// packageOf returns the path of a function's package. It ends at the first dot after the last
// slash. In a path's last element, dots are written as %2e.
func packageOf(function string) string {
	function, _, _ = strings.Cut(function, "[") // type arguments contain paths, too
	last := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[last:], ".")
	return function[:last] + name
}

var buildInfo = sync.OnceValues(debug.ReadBuildInfo)

// standard reports whether a package is the standard library's. Such a path has no dot in its first
// element. Nor has package main, and modules that are never fetched need none.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	if path == "main" || strings.Contains(first, ".") || strings.Contains(first, "%2e") {
		return false
	}
	info, ok := buildInfo()
	if !ok {
		return true
	}
	for _, m := range append(info.Deps, &info.Main) {
		if path == m.Path || strings.HasPrefix(path, m.Path+"/") {
			return false
		}
	}
	return true
}
