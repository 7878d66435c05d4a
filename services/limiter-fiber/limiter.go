package main

import (
	"context"
	"errors"
	"log"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"

	"weir/services/internal/forward"
	"weir/services/internal/process"
)

// headerAPIKey carries the key that requests are counted by.
const headerAPIKey = "X-Api-Key"

// newLimiter makes the application: each request that the window admits is forwarded to the app, whatever its method and path.
// GET /healthz is the limiter's own and says also whether Redis responds. With a limit of 0 nothing is counted or demanded.
func newLimiter(w *window, app *forward.Upstream) *fiber.App {
	server := process.NewApp(name, process.MaxBodyBytes, process.WriteTime)
	server.Get("/healthz", func(c *fiber.Ctx) error { return c.JSON(health(w)) })
	if w.limit > 0 {
		server.Use(limit(w))
	}
	server.Use(app.Handler(nil, false))
	return server
}

// limit refuses what may not pass: 400 without a key, 429 over the limit, 503 while Redis cannot be reached.
func limit(w *window) fiber.Handler {
	retryAfter := strconv.Itoa(int(w.length / time.Second)) // at most: what is left of the window would be another command
	failures := newQuietLog()
	return func(c *fiber.Ctx) error {
		apiKey := c.Get(headerAPIKey) // valid only within the handler
		if apiKey == "" {
			return c.Status(fiber.StatusBadRequest).SendString("missing api key (X-API-KEY)")
		}
		admitted, err := w.admit(context.Background(), apiKey)
		switch {
		case err != nil:
			failures.print(err)
			c.Set(fiber.HeaderRetryAfter, "1")
			return c.Status(fiber.StatusServiceUnavailable).SendString("rate limiter unavailable")
		case !admitted:
			c.Set(fiber.HeaderRetryAfter, retryAfter)
			return c.Status(fiber.StatusTooManyRequests).SendString("rate limit exceeded")
		}
		return c.Next()
	}
}

// Health is the response of GET /healthz.
type Health struct {
	OK      bool   `json:"ok"`
	Service string `json:"service"`
	// Redis is up, down, or unused where the limit is 0. It does not change ok: the process is there, and says 503 by itself.
	Redis string `json:"redis"`
}

func health(w *window) Health {
	answer := Health{OK: true, Service: name, Redis: "unused"}
	if w.limit == 0 {
		return answer
	}
	ctx, cancel := context.WithTimeout(context.Background(), redisAnswerTime)
	defer cancel()
	answer.Redis = "up"
	if err := w.redis.Ping(ctx).Err(); err != nil {
		answer.Redis = "down"
	}
	return answer
}

// quietLog prints an error at most once a second: when Redis is away, every request has one.
type quietLog struct{ last atomic.Int64 }

func newQuietLog() *quietLog { return &quietLog{} }

func (q *quietLog) print(err error) {
	now, last := time.Now().UnixNano(), q.last.Load()
	if now-last < int64(time.Second) || !q.last.CompareAndSwap(last, now) || errors.Is(err, context.Canceled) {
		return
	}
	log.Printf("%s: %v", name, err)
}
