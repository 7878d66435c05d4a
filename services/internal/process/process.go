// Package process is the life of a service: where it listens, what it prints, how it stops, and with which exit code.
package process

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v2"
)

// Exit codes, from sysexits.h.
const (
	ExitOK = 0
	// ExitUsage: a flag, a variable or a file of the configuration is wrong.
	ExitUsage = 64
	// ExitUnavailable: the address to listen on cannot be had.
	ExitUnavailable = 69
	// ExitFailure: the service stopped by itself, or requests were still in flight when the drain time was over.
	ExitFailure = 1
)

// drainTime bounds how long a stopping service waits for the requests in flight.
const drainTime = 10 * time.Second

// Listen is where a service listens.
type Listen struct {
	Host string
	Port int // 0 takes a free port
}

// Address is HOST:PORT.
func (l Listen) Address() string { return net.JoinHostPort(l.Host, strconv.Itoa(l.Port)) }

// ListenFlags is what the environment (HOST, PORT) and the command line (-host, -port) say about it; the command line wins.
type ListenFlags struct {
	host *string
	port *int
}

// Register adds -host and -port, whose help names the address that is used without them, and reads the environment.
func (l *ListenFlags) Register(flags *flag.FlagSet, env func(string) string, otherwise Listen) error {
	setHost := func(host string) error { l.host = &host; return nil }
	setPort := func(text string) error {
		port, err := parsePort(text)
		l.port = &port
		return err
	}
	if host := env("HOST"); host != "" {
		_ = setHost(host)
	}
	if text := env("PORT"); text != "" {
		if err := setPort(text); err != nil {
			return fmt.Errorf("PORT: %w", err)
		}
	}
	flags.Func("host", fmt.Sprintf("`address` to listen on; also HOST (default %s)", otherwise.Host), setHost)
	flags.Func("port", fmt.Sprintf("`port` to listen on, 0 for a free one; also PORT (default %d)", otherwise.Port), setPort)
	return nil
}

// Over is where to listen, given what holds when neither the environment nor the command line says it.
func (l *ListenFlags) Over(otherwise Listen) Listen {
	if l.host != nil {
		otherwise.Host = *l.host
	}
	if l.port != nil {
		otherwise.Port = *l.port
	}
	return otherwise
}

func parsePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%q is not a port: want a number from 0 to 65535", text)
	}
	return int(port), nil
}

// Parse reads the command line. It returns the exit code and false where the program must end: after -help, and after a wrong
// flag, which flag has reported to its output by then.
func Parse(flags *flag.FlagSet, args []string) (exit int, run bool) {
	flags.Usage = func() {} // not the whole list after each mistake
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(flags.Output(), "Usage of %s:\n", flags.Name())
		flags.PrintDefaults()
		return ExitOK, false
	case err != nil:
		fmt.Fprintf(flags.Output(), "(%s -help lists the flags)\n", flags.Name())
		return ExitUsage, false
	case flags.NArg() > 0:
		fmt.Fprintf(flags.Output(), "%s: unexpected argument %q\n(%[1]s -help lists the flags)\n", flags.Name(), flags.Arg(0))
		return ExitUsage, false
	}
	return ExitOK, true
}

// Fail reports why a service cannot run and returns the exit code given.
func Fail(stderr io.Writer, name string, exit int, err error) int {
	fmt.Fprintf(stderr, "%s: %v\n", name, err)
	return exit
}

// Serve listens, prints "listening on http://ADDRESS" to stdout, and serves until SIGTERM or SIGINT. Then it takes no new
// connection, lets the requests in flight end, and returns the exit code. A second signal ends the process at once.
func Serve(name string, at Listen, app *fiber.App, stdout, stderr io.Writer) int {
	listener, err := net.Listen("tcp", at.Address())
	if err != nil {
		return Fail(stderr, name, ExitUnavailable, explainListen(at.Address(), err))
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()

	// The last response on each connection says so; idle connections are closed by the shutdown itself.
	app.Server().CloseOnShutdown = true
	served := make(chan error, 1)
	go func() { served <- app.Listener(listener) }()
	fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())

	select {
	case err := <-served:
		return Fail(stderr, name, ExitFailure, fmt.Errorf("stopped serving: %w", err))
	case <-stop.Done():
	}
	cancel() // from here on a signal has its default effect
	if err := app.ShutdownWithTimeout(drainTime); err != nil {
		return Fail(stderr, name, ExitFailure, fmt.Errorf("requests were still in flight %s after the signal to stop: %w", drainTime, err))
	}
	return ExitOK
}

func explainListen(address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use by another program; stop it, or choose another port with -port or PORT", address)
	}
	return fmt.Errorf("cannot listen on %s: %w", address, err)
}
