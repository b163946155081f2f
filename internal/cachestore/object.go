package cachestore

import (
	"errors"

	"github.com/lwango/lwango/loop"
)

// Head is all of an answer but its body. Nobody changes one that a store has got. The store looks at
// Vary and Tags alone; the rest is the layer's, and is given back as it was, also after a restart.
type Head struct {
	Status int
	Fields string   // the header, as the layer likes to send it
	Vary   string   // what selects the variant; of two objects with one Vary the newer one stays
	Tags   []string // for Purge
	Note   string   // whatever else the layer has to know, such as times
	Parsed any      // what the layer has made of all that; Options.Parse makes it after a restart
}

// Object is an answer that is kept. It does not change, apart from Stale and the coded forms.
type Object struct {
	head *Head
	body []byte
}

// Head returns the head.
func (o *Object) Head() *Head { return o.head }

// Size is the length of the body in bytes.
func (o *Object) Size() int64 { return int64(len(o.body)) }

// Body returns the body of an object in memory. ok is false for one on disk: Open gives its file.
func (o *Object) Body() (body []byte, ok bool) { return o.body, true }

// Hit tells the policy of eviction that the object was used. It costs a load, once the object is
// known as a popular one.
func (o *Object) Hit() {}

// Stale reports whether a soft purge has made the object stale.
func (o *Object) Stale() bool { return false }

// ErrGone is the error of Open for an object whose file cannot be read any more: it was evicted or
// purged, or the disk has failed. The object is as good as never found.
var ErrGone = errors.New("cachestore: the object's file is gone")

// Open returns the file of an object on disk, in which the body has Size bytes from off on. It is a
// conn.File for SetBodyFile. t may wait for the disk. The file can be read until Close, whatever
// becomes of the object.
func (o *Object) Open(t *loop.Thread) (f *File, off int64, err error) { return nil, 0, ErrGone }

// File is the open file of an object, which all that send from it share. A caller of Open closes it
// once.
type File struct{}

// Fd returns the descriptor, for pread(2) and sendfile(2) alone.
func (f *File) Fd() uintptr { return ^uintptr(0) }

// Close gives the file back.
func (f *File) Close() error { return nil }

// Forms is how many coded forms of a body are kept at most, such as gzip's; their numbers are the
// layer's.
const Forms = 3

// Form returns a coded form of the body of an object in memory, that SetForm has left; nil if there
// is none. make says that there is none and that this caller is the one to make it: it calls SetForm
// afterwards, whatever comes of it.
func (o *Object) Form(form int) (coded []byte, make bool) { return nil, false }

// SetForm keeps a coded form, as long as the object, within the limits of the store. nil means that
// it could not be made or is not worth it: then Form never asks for it again.
func (o *Object) SetForm(form int, coded []byte) {}
