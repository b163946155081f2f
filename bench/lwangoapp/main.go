// Lwangoapp is lwango with handlers of its own: the works that need one run it in place of the
// command.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/bench/tasks"
	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/handlers/helloworld"
	"github.com/lwango/lwango/loop"
)

func main() {
	address := flag.String("beside", "",
		"let goroutines answer at this `ADDRESS`, beside the loops")
	backend := flag.String("backend", "", "pass /proxy on to this `ADDRESS`, and ask it for /fanout")
	routes := flag.Bool("routes", false, "add 200 routes")
	lwango.ParseFlags()
	tasks.Start(*address, *backend, func(path string, h http.Handler) {
		lwango.Handle(path, lwango.HTTP(h))
	})
	lwango.Handle(tasks.SleepPath, sleep)
	lwango.Handle(tasks.FanOutPath, fanOut("http://"+*backend+"/"))
	lwango.Handle(tasks.BurnPath, burn)
	lwango.Handle(tasks.FormPath, form)
	lwango.Handle(tasks.RoomPath, room)
	lwango.Handle(tasks.FillPath, fill)
	lwango.Handle(tasks.EchoPath, echo)
	lwango.Handle(tasks.DeflatePath, deflated)
	lwango.Handle(tasks.EventsPath, events)
	lwango.Handle(tasks.SayPath, say)
	if *routes {
		for _, pattern := range tasks.Routes() {
			lwango.Handle(pattern, part)
		}
	}
	api := lwango.NewMux() // a route of its own, so that other works meet no patterns
	api.Handle("GET "+tasks.ItemRoute, item)
	lwango.Handle("/api", api.Serve)
	lwango.Main()
}

// item answers as a REST service does.
func item(req *lwango.Request, resp *lwango.Response) int {
	item, ok := tasks.Items[req.PathValue("id")]
	if !ok {
		return resp.Error(404, errors.New("there is no such item"))
	}
	return resp.JSON(200, item)
}

// part answers with hello.
func part(req *lwango.Request, resp *lwango.Response) int {
	if req.PathValue("id") == "" || req.PathValue("part") == "" {
		return 404
	}
	return helloworld.Serve(req, resp)
}

func sleep(req *lwango.Request, resp *lwango.Response) int {
	text, err := tasks.Sleep(req.Query().Get("ms"), req.Sleep)
	if err != nil {
		return 500 // or the client has left, and will not see this
	}
	resp.Header().Set("Content-Type", "text/plain")
	resp.WriteString(text)
	return 200
}

// form writes the file of a form, as samples/upload does: in pieces of 64 KiB, off the loop.
func form(req *lwango.Request, resp *lwango.Response) int {
	req.KeepWaiting(true)
	size := 0
	for part, err := range req.Parts() {
		if err != nil {
			return resp.Error(400, err)
		}
		file, err := tasks.TempFile()
		if err != nil {
			return resp.Error(500, err)
		}
		defer file.Close()
		for buf := make([]byte, 64<<10); err == nil; {
			n := 0
			for n < len(buf) && err == nil {
				var m int
				m, err = part.Read(buf[n:])
				n += m
			}
			write := func(context.Context) error { _, err := file.Write(buf[:n]); return err }
			if err := req.Await(-1, write); err != nil {
				return resp.Error(500, err)
			}
			size += n
		}
		if err != io.EOF {
			return resp.Error(400, err)
		}
	}
	return resp.Text(200, strconv.Itoa(size))
}

// fanOut asks for a URL many times at once.
func fanOut(url string) lwango.Handler {
	ask := func(t *loop.Thread) (string, error) {
		answer, err := client.Get(t, tasks.FanOutLimit, url)
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(answer.Body)
		return string(text), err
	}
	return func(req *lwango.Request, resp *lwango.Response) int {
		asked := make([]*loop.Promise[string], tasks.Calls)
		for i := range asked {
			asked[i] = loop.Go(req.Thread, ask)
		}
		texts, errs := loop.Collect(req.Thread, tasks.FanOutLimit, asked...)
		if err := errors.Join(errs...); err != nil {
			return resp.Error(502, err)
		}
		text, err := tasks.FannedOut(texts)
		if err != nil {
			return resp.Error(502, err)
		}
		resp.Header().Set("Content-Type", "text/plain")
		resp.WriteString(text)
		return 200
	}
}

// burn lets two functions compute off the loop.
func burn(req *lwango.Request, _ *lwango.Response) int {
	ms := req.Query().Get("ms")
	work := func() (int, error) { tasks.Burn(ms); return 0, nil }
	if err := req.AwaitAll(
		time.Minute, loop.Call(req.Thread, work), loop.Call(req.Thread, work),
	); err != nil {
		return 500
	}
	return 200
}
