package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/lwango/lwango"
)

// piece is how much of a file is written at a time, in bytes: all of a form that is in memory.
const piece = 64 << 10

// maxFiles is how many files a form may have: each is open until the last is complete.
const maxFiles = 16

// stored is what the client learns of a file.
type stored struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Errors of a form.
var (
	errNoFile   = errors.New("the form has no file")
	errTooMany  = errors.New("the form has more than 16 files")
	errSameTime = errors.New("another upload has this id at present")
	errBadID    = errors.New("expected 8 to 64 letters, digits and dashes as the upload's id")
	errOrigin   = errors.New("the form is of a page of another site")
	errFull     = errors.New("too many uploads at present, please try again")
)

// receive writes the files of a form of at most that many bytes to the folder. Either all of them
// get a name there, or none. Each form takes a place in slots.
func receive(to *folder, most int64, slots chan struct{}) lwango.Handler {
	var running sync.Map // of ids
	return func(req *lwango.Request, resp *lwango.Response) int {
		if !ownPage(req) {
			return resp.Error(403, errOrigin)
		}
		id := req.PathValue("id")
		if !validID(id) {
			return resp.Error(400, errBadID)
		}
		if _, twice := running.LoadOrStore(id, true); twice {
			return resp.Error(409, errSameTime)
		}
		defer running.Delete(id)
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			resp.Header().Set("Retry-After", "10")
			return resp.Text(503, errFull.Error()+"\n")
		}
		req.Body().SetLimit(most)
		f := &form{req: req, to: to, progress: begin(id, req.ContentLength()), buf: make([]byte, piece)}
		defer f.close()
		// If the client leaves, reading fails. A write that has begun then is waited for, since it
		// uses the buffer.
		req.KeepWaiting(true)
		files, err := f.receive()
		if errors.Is(err, lwango.ErrBodyTooLarge) {
			err = fmt.Errorf("%w: %s are allowed", err, amount(most))
		}
		if err != nil {
			return f.refuse(resp, err)
		}
		f.progress.end("done", "")
		return resp.JSON(201, files)
	}
}

// ownPage reports whether a form is sent by a page of this server, or not by a page at all. A
// browser sends a form of any page to any server, with the cookies and from the network of the
// person that looks at it. It says so in Sec-Fetch-Site, or, if it is old or there is no TLS, in
// Origin.
func ownPage(req *lwango.Request) bool {
	switch from := req.Header().Get("Sec-Fetch-Site"); from {
	case "same-origin", "none":
		return true
	case "":
		origin := req.Header().Get("Origin")
		if origin == "" {
			return true // curl, for one
		}
		u, err := url.Parse(origin)
		return err == nil && u.Host != "" && strings.EqualFold(u.Host, req.Host())
	}
	return false
}

// form is a form on its way.
type form struct {
	req      *lwango.Request
	to       *folder
	progress *progress
	buf      []byte
	open     []*os.File
}

func (f *form) close() {
	f.progress.end("failed", "the upload was broken off") // unless it has come to its end before
	// A file without a name is freed when it is closed, and a large one takes the disk a while.
	go func() {
		for _, file := range f.open {
			file.Close()
		}
	}()
}

// receive returns the files, which have their names then.
func (f *form) receive() ([]stored, error) {
	var files []stored
	for part, err := range f.req.Parts() {
		if err != nil {
			return nil, err
		}
		if part.FileName() == "" {
			continue // a field without a file
		}
		if len(files) == maxFiles {
			return nil, errTooMany
		}
		size, err := f.save(part)
		if err != nil {
			return nil, err
		}
		files = append(files, stored{safeName(part.FileName()), size})
	}
	if len(files) == 0 {
		return nil, errNoFile
	}
	return files, f.req.Await(-1, func(context.Context) error { return f.name(files) })
}

// save writes a part to a file.
func (f *form) save(part io.Reader) (size int64, err error) {
	// A busy disk holds up its caller: here that is a worker off the loop.
	file, err := lwango.Await(f.req, -1, func(context.Context) (*os.File, error) {
		return f.to.create()
	})
	if err != nil {
		return 0, err
	}
	f.open = append(f.open, file)
	for err == nil {
		n := 0
		for n < len(f.buf) && err == nil {
			var m int
			m, err = part.Read(f.buf[n:]) // waits for the client
			n += m
			f.progress.add(m)
		}
		if n == 0 {
			break
		}
		write := func(context.Context) error { _, err := file.Write(f.buf[:n]); return err }
		if err := f.req.Await(-1, write); err != nil {
			return size, err
		}
		size += int64(n)
	}
	if err == io.EOF {
		err = nil
	}
	return size, err
}

// name names all files, or none. It runs off the loop.
func (f *form) name(files []stored) error {
	for i := range files {
		name, err := f.to.name(f.open[i], files[i].Name)
		if err != nil {
			for _, named := range files[:i] {
				f.to.remove(named.Name)
			}
			return err
		}
		files[i].Name = name
	}
	return nil
}

// refuse answers with an error. What is wrong with the body decides the status: see Response.Error.
// What is wrong with the folder is for the log. Those errors have a path; one of the connection,
// such as a client's reset, has a number, too.
func (f *form) refuse(resp *lwango.Response, err error) int {
	_, ours := errors.AsType[*fs.PathError](err)
	number, _ := errors.AsType[syscall.Errno](err)
	switch {
	case !ours:
		f.progress.end("failed", err.Error())
		return resp.Error(400, err)
	case number == syscall.ENOSPC, number == syscall.EDQUOT:
		f.progress.end("failed", "the server has no room for the files")
		return resp.Error(507, err)
	case number == syscall.EMFILE, number == syscall.ENFILE:
		f.progress.end("failed", errFull.Error())
		return resp.Error(503, err)
	}
	f.progress.end("failed", "the server could not store the files")
	return resp.Error(500, err)
}
