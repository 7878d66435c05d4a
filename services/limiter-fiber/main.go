// Command limiter-fiber is a reverse proxy that admits a number of requests per API key and window of time, counted in Redis: a
// common design, kept as it is, to measure others against.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"weir/services/internal/forward"
	"weir/services/internal/process"
)

const name = "limiter-fiber"

var listen = process.Listen{Host: "127.0.0.1", Port: 3000}

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

func run(args []string, env func(string) string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	var at process.ListenFlags
	if err := at.Register(flags, env, listen); err != nil {
		return process.Fail(stderr, name, process.ExitUsage, err)
	}
	o := options{length: 5 * time.Second, limit: 3, app: "http://127.0.0.1:3001"}
	for _, setting := range o.settings() {
		if text := env(setting.variable); text != "" {
			if err := setting.set(text); err != nil {
				return process.Fail(stderr, name, process.ExitUsage, fmt.Errorf("%s: %w", setting.variable, err))
			}
		}
		flags.Func(setting.flag, setting.help+"; also "+setting.variable, setting.set)
	}
	if exit, run := process.Parse(flags, args); !run {
		return exit
	}
	if o.redis == nil {
		_ = o.setRedis("127.0.0.1:6379")
	}
	app, err := forward.New(forward.Settings{Servers: []string{o.app}})
	if err != nil {
		return process.Fail(stderr, name, process.ExitUsage, fmt.Errorf("-app-endpoint: %w", err))
	}
	counters := &window{redis: newRedis(o.redis), limit: o.limit, length: o.length}
	defer counters.redis.Close()
	return process.Serve(name, at.Over(listen), newLimiter(counters, app), stdout, stderr)
}

// options are the flags of the original, with its names.
type options struct {
	length time.Duration
	limit  int64
	app    string
	redis  *redis.Options
}

// setting is one option, on the command line and in the environment.
type setting struct {
	flag, variable, help string
	set                  func(string) error
}

func (o *options) settings() []setting {
	return []setting{
		{"window", "WINDOW", "length of the window in `seconds`, or as 5s, 2m (default 5)", o.setWindow},
		{"limit", "LIMIT", "`requests` per key and window; 0 switches limiting off, and the demand for a key (default 3)", o.setLimit},
		{"app-endpoint", "APP_ENDPOINT", "`address` or http:// URL of the app (default 127.0.0.1:3001)", o.setApp},
		{"redis-endpoint", "REDIS_ENDPOINT", "`address` or redis:// URL of Redis (default 127.0.0.1:6379)", o.setRedis},
	}
}

func (o *options) setWindow(text string) error {
	length, err := time.ParseDuration(text)
	if seconds, notNumber := strconv.ParseInt(text, 10, 32); notNumber == nil {
		length, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || length < time.Second || length%time.Second != 0 || length > 366*24*time.Hour {
		return fmt.Errorf("%q is not a window: want whole seconds, at least 1, at most 366 days", text)
	}
	o.length = length
	return nil
}

func (o *options) setLimit(text string) error {
	limit, err := strconv.ParseUint(text, 10, 62)
	if err != nil {
		return fmt.Errorf("%q is not a limit: want 0 or a positive number of requests", text)
	}
	o.limit = int64(limit)
	return nil
}

func (o *options) setApp(text string) error {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	o.app = text
	_, _, err := forward.ParseServer(text)
	return err
}

func (o *options) setRedis(text string) error {
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	parsed, err := redis.ParseURL(text)
	if err != nil {
		return errors.New("not a Redis endpoint: want HOST:PORT or redis://[USER:PASSWORD@]HOST:PORT[/DATABASE]") // without the text: it may hold a password
	}
	o.redis = parsed
	return nil
}
