package server_test

import (
	"github.com/lwango/lwango/internal/config"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/pubsub/redis"
)

func source() config.Source {
	return config.Source{Modules: config.Builtin(), Broker: redis.Broker, Logger: logtext.Quiet}
}

// route makes the smallest configuration around the lines of a route, which begin on line 3.
func route(lines string) string { return "[[site]]\n[[site.route]]\n" + lines }
