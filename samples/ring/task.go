package main

// A Task is work that has not begun. It runs each time that it is called, on a Context, and returns
// a value or an error. Tasks are put together from others before any of them runs:
//
//	accept := Then(UponError(listener.accept, pause), admit)
//	both := WhenAll(accept, stop)
//	_, err := Run(context, both)
type Task[T any] func(*Context) (T, error)

// None is the value of a task that has none.
type None = struct{}

// Run runs a task, and all that it starts, to the end. The calling goroutine is the Context's.
// It is a function since Go's methods have no type parameters of their own.
func Run[T any](c *Context, t Task[T]) (value T, err error) {
	ended := false
	c.start(func() { value, err = t(c) }, func(panicked error) {
		if ended = true; panicked != nil {
			err = panicked
		}
	})
	if broken := c.drive(&ended); broken != nil {
		return value, broken
	}
	return value, err
}

// Then is t, and then f with its value. An error of t is that of both.
func Then[T, U any](t Task[T], f func(*Context, T) (U, error)) Task[U] {
	return func(c *Context) (U, error) {
		value, err := t(c)
		if err != nil {
			var none U
			return none, err
		}
		return f(c, value)
	}
}

// UponError is t, or, if that fails, what f makes of the error.
func UponError[T any](t Task[T], f func(*Context, error) (T, error)) Task[T] {
	return func(c *Context) (T, error) {
		value, err := t(c)
		if err != nil {
			return f(c, err)
		}
		return value, nil
	}
}

// WhenAll runs tasks at the same time, and ends when all of them have. The first error cancels the
// others, and is that of all.
func WhenAll[T any](tasks ...Task[T]) Task[[]T] {
	return func(c *Context) ([]T, error) {
		values := make([]T, len(tasks))
		var first error
		err := WithScope(c, nil, func(s *Scope) error {
			s.failed = func(err error) {
				if first == nil {
					first = err
				}
				s.Cancel(err)
			}
			for i, t := range tasks {
				s.Spawn(func(c *Context) (_ None, err error) {
					values[i], err = t(c)
					return None{}, err
				})
			}
			return nil
		})
		if first == nil {
			first = err
		}
		return values, first
	}
}
