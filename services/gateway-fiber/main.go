// Command gateway-fiber is an API gateway made of Fiber and its proxy middleware, configured by a JSON file: the peer that a Go team
// would write for itself, in every comparison.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"

	"weir/services/gateway-fiber/config"
	"weir/services/internal/process"
)

//go:embed gateway.json
var defaultFile []byte

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

func run(args []string, env func(string) string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("config", env("CONFIG"), "JSON `file` with routes and upstreams; also CONFIG (default: the built-in gateway.json)")
	check := flags.Bool("check", false, "read the configuration, say what is wrong with it, and end")
	processes := -1
	flags.Func("processes", "how `many` cores run Go code at once (GOMAXPROCS), 0 leaves it to Go (default: what the file says)", func(text string) error {
		n, err := strconv.ParseUint(text, 10, 16)
		processes = int(n)
		return err
	})
	var at process.ListenFlags
	otherwise := process.Listen{Host: config.DefaultHost, Port: config.DefaultPort}
	if err := at.Register(flags, env, otherwise); err != nil {
		return process.Fail(stderr, name, process.ExitUsage, err)
	}
	if exit, run := process.Parse(flags, args); !run {
		return exit
	}

	cfg, err := load(*file)
	if err != nil {
		return process.Fail(stderr, name, process.ExitUsage, err)
	}
	if processes >= 0 {
		cfg.Processes = processes
	}
	app, err := newGateway(cfg)
	if err != nil {
		return process.Fail(stderr, name, process.ExitUsage, err)
	}
	if *check {
		fmt.Fprintf(stdout, "fine: %d routes, upstreams: %d\n", len(cfg.Routes), len(cfg.Upstreams))
		return process.ExitOK
	}
	if cfg.Processes > 0 {
		runtime.GOMAXPROCS(cfg.Processes)
	}
	return process.Serve(name, at.Over(cfg.Listen), app, stdout, stderr)
}

func load(file string) (*config.Config, error) {
	if file != "" {
		return config.Load(file)
	}
	cfg, err := config.Parse(defaultFile, os.LookupEnv)
	if err != nil {
		return nil, fmt.Errorf("built-in gateway.json: %w", err)
	}
	return cfg, nil
}
