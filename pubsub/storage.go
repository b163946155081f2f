package pubsub

import (
	"context"
	"time"
)

// Storer is a Broker that keeps values, too, such as certificates.
type Storer interface {
	// Storage returns the storage at a URL that Check accepts. It need not be up.
	Storage(url string) (Storage, error)
}

// Storage keeps values by key for all processes that use it. Any goroutine may call its methods,
// which wait for the broker: for a few seconds at most, or until the context ends.
type Storage interface {
	// Get returns the value of a key; nil: it has none.
	Get(ctx context.Context, key string) (value []byte, err error)

	// Set gives a key a value for a time; 0: for good.
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error

	// Add is Set for a key that has no value, and reports whether it had none.
	Add(ctx context.Context, key string, value []byte, ttl time.Duration) (added bool, err error)

	// Extend lets a key keep its value for that time from now on, and reports whether it has it.
	Extend(ctx context.Context, key string, value []byte, ttl time.Duration) (
		extended bool, err error)

	// Remove takes the value of a key away, unless it is another one.
	Remove(ctx context.Context, key string, value []byte) error

	// Close ends calls that wait. Later ones fail.
	Close()
}
