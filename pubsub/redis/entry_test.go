package redis_test

import (
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/pubsub/redis"
)

// FuzzParse gives it what any client could have written to a stream.
func FuzzParse(f *testing.F) {
	f.Add("1x-z", "1763700000000000000", "text")
	f.Add("", "", "")
	f.Add("-1", "1", "x")
	f.Add("1-2-3", "-9223372036854775808", "x")
	f.Add("1-3w5e11264sgsf", "9223372036854775807", "x")
	f.Add("1-3w5e11264sgsg", "9223372036854775808", "x")
	f.Fuzz(func(t *testing.T, id, nanos, data string) {
		e, err := redis.Parse(goredis.XMessage{
			Values: map[string]any{"id": id, "time": nanos, "data": data}})
		if err != nil {
			return
		}
		if string(e.Data) != data || e.ID != id || len(id) > 27 || !strings.Contains(id, "-") ||
			e.Time.Location() != time.Local {
			t.Errorf("%q, %q: %+v", id, nanos, e)
		}
	})
}
