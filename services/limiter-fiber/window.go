package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Times that bound what a request waits for Redis.
const (
	redisConnectTime = time.Second
	redisAnswerTime  = 500 * time.Millisecond
	redisPoolTime    = time.Second
)

// keyPrefix tells the limiter's keys from whatever else is in the database.
const keyPrefix = "limiter:"

// window counts requests per API key in windows of fixed length that begin with a key's first request.
type window struct {
	redis  *redis.Client
	limit  int64
	length time.Duration
}

// newRedis makes the client. It connects when the first request comes, and reconnects after Redis was unreachable.
func newRedis(options *redis.Options) *redis.Client {
	options.DialTimeout = redisConnectTime
	options.ReadTimeout = redisAnswerTime
	options.WriteTimeout = redisAnswerTime
	options.PoolTimeout = redisPoolTime
	options.MaxRetries = -1 // a transaction that was sent may have counted
	options.DialerRetries = 1
	options.DisableIdentity = true
	return redis.NewClient(options)
}

// admit counts a request of the key and reports whether it is within the limit. Each request, also one over the limit, is one
// round trip: MULTI, SET key 0 EX window NX, INCR key, EXEC.
func (w *window) admit(ctx context.Context, apiKey string) (bool, error) {
	name := counterName(apiKey)
	var count *redis.IntCmd
	_, err := w.redis.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.SetNX(ctx, name, 0, w.length)
		count = tx.Incr(ctx, name)
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("redis: %w", err)
	}
	return count.Val() <= w.limit, nil
}

// counterName hides the API key: whoever can list Redis's keys must not learn those of the users. It copies what it keeps, so the
// argument may be one of Fiber's strings, which change after the handler.
func counterName(apiKey string) string {
	sum := sha256.Sum256([]byte(apiKey))
	return keyPrefix + hex.EncodeToString(sum[:])
}
