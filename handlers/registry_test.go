package handlers_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
)

type settings struct {
	Status int
	Text   string
}

func TestRegistry(t *testing.T) {
	var r handlers.Registry
	handlers.RegisterModule(&r, "fixed", settings{Status: 200},
		func(s settings, env handlers.Env) (conn.Handler, error) {
			if s.Status == 0 {
				return nil, handlers.BadKey("status", "expected %s", "another")
			}
			env.Log().Info("dropped")
			return numbered(s.Status), nil
		})
	r.HandleFunc("seven", numbered(7))

	m, ok := r.Module("fixed")
	if !ok || m.Name != "fixed" {
		t.Fatalf("module: %+v, %v", m, ok)
	}
	first, second := m.NewSettings().(*settings), m.NewSettings().(*settings)
	first.Status = 404
	if second.Status != 200 {
		t.Error("two routes share their settings")
	}
	h, err := m.Build(first, handlers.Env{})
	if err != nil || h(nil, nil) != 404 {
		t.Errorf("build: %v", err)
	}
	var bad *handlers.KeyError
	if _, err := m.Build(&settings{}, handlers.Env{}); !errors.As(err, &bad) || bad.Key != "status" ||
		err.Error() != "status: expected another" {
		t.Errorf("bad value: %v", err)
	}
	if _, err := m.Build(settings{}, handlers.Env{}); err == nil {
		t.Error("settings of a wrong type were taken")
	}

	if h, ok := r.Handler("seven"); !ok || h(nil, nil) != 7 {
		t.Error("handler not found")
	}
	if _, ok := r.Handler("fixed"); ok {
		t.Error("a module is no handler")
	}
	if got := r.ModuleNames(); !slices.Equal(got, []string{"fixed"}) {
		t.Errorf("modules: %q", got)
	}
	if got := r.HandlerNames(); !slices.Equal(got, []string{"seven"}) {
		t.Errorf("handlers: %q", got)
	}
}

func TestRegisteringTwicePanics(t *testing.T) {
	build := func(settings, handlers.Env) (conn.Handler, error) { return numbered(1), nil }
	for name, f := range map[string]func(*handlers.Registry){
		"module": func(r *handlers.Registry) {
			handlers.RegisterModule(r, "a", settings{}, build)
		},
		"handler": func(r *handlers.Registry) { r.HandleFunc("a", numbered(1)) },
		"module, no name": func(r *handlers.Registry) {
			handlers.RegisterModule(r, "", settings{}, build)
		},
		"handler, no func": func(r *handlers.Registry) { r.HandleFunc("b", nil) },
		"module, no build": func(r *handlers.Registry) {
			handlers.RegisterModule[settings](r, "b", settings{}, nil)
		},
		"handler, no names": func(r *handlers.Registry) { r.HandleFunc("", numbered(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			var r handlers.Registry
			handlers.RegisterModule(&r, "a", settings{}, build)
			r.HandleFunc("a", numbered(1))
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f(&r)
		})
	}
}
