// Command calculator is the application service behind the rate limiters: a little arithmetic over HTTP, quick enough never to be
// what is measured.
package main

import (
	"flag"
	"io"
	"os"

	"weir/services/internal/process"
)

const name = "calculator"

var listen = process.Listen{Host: "127.0.0.1", Port: 3001}

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

func run(args []string, env func(string) string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	var at process.ListenFlags
	if err := at.Register(flags, env, listen); err != nil {
		return process.Fail(stderr, name, process.ExitUsage, err)
	}
	if exit, run := process.Parse(flags, args); !run {
		return exit
	}
	return process.Serve(name, at.Over(listen), newCalculator(), stdout, stderr)
}
