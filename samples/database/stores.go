package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx of database/sql
	"github.com/redis/go-redis/v9"

	"github.com/lwango/lwango/loop"
)

// stores are the databases, each by two drivers. Any goroutine may use them.
type stores struct {
	sql   *sql.DB
	pgx   *pgxpool.Pool
	redis *redis.Client
	conns threadConns
}

// open connects to the databases. A worker that waits for a connection of its pool is taken all the
// same. So the pools should be as large as there are workers, as far as the database allows it, or
// the workers be fewer (`workers` in the configuration).
func open(ctx context.Context, postgres, address string) (s *stores, err error) {
	workers := loop.DefaultWorkers * runtime.NumCPU()
	config, err := pgxpool.ParseConfig(postgres)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(min(workers, 40)) // PostgreSQL has 100 for all its clients
	s = &stores{conns: threadConns{address: address}}
	if s.sql, err = sql.Open("pgx", postgres); err != nil {
		return nil, err
	}
	s.sql.SetMaxOpenConns(int(config.MaxConns))
	s.sql.SetMaxIdleConns(int(config.MaxConns))
	s.redis = redis.NewClient(&redis.Options{
		Addr: address, PoolSize: workers, ContextTimeoutEnabled: true,
	})
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.pgx, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	const table = "CREATE TABLE IF NOT EXISTS items (id bigint PRIMARY KEY, name text NOT NULL)"
	if _, err := s.pgx.Exec(ctx, table); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if err := s.redis.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return s, nil
}

func (s *stores) close() {
	_ = s.sql.Close()
	_ = s.redis.Close()
	if s.pgx != nil {
		s.pgx.Close()
	}
}

const (
	selectItem = "SELECT name FROM items WHERE id = $1"
	upsertItem = "INSERT INTO items VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET name = $2"
)

func (s *stores) findSQL(ctx context.Context, id int64) (item, error) {
	it := item{ID: id}
	err := s.sql.QueryRowContext(ctx, selectItem, id).Scan(&it.Name)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNone
	}
	return it, err
}

func (s *stores) saveSQL(ctx context.Context, it item) error {
	_, err := s.sql.ExecContext(ctx, upsertItem, it.ID, it.Name)
	return err
}

func (s *stores) findPgx(ctx context.Context, id int64) (item, error) {
	it := item{ID: id}
	err := s.pgx.QueryRow(ctx, selectItem, id).Scan(&it.Name)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errNone
	}
	return it, err
}

func (s *stores) savePgx(ctx context.Context, it item) error {
	_, err := s.pgx.Exec(ctx, upsertItem, it.ID, it.Name)
	return err
}

// key is what Redis has an item under.
func key(id int64) string { return "item:" + strconv.FormatInt(id, 10) }

func (s *stores) findRedis(ctx context.Context, id int64) (item, error) {
	name, err := s.redis.Get(ctx, key(id)).Result()
	if errors.Is(err, redis.Nil) {
		err = errNone
	}
	return item{id, name}, err
}

func (s *stores) saveRedis(ctx context.Context, it item) error {
	return s.redis.Set(ctx, key(it.ID), it.Name, 0).Err()
}
