// Command auction is an auction platform: users, descriptions with images, and bids, three services of one program, each on a port
// of its own, as the case in the literature has them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"weir/services/auction/store"
	"weir/services/internal/process"
)

const (
	name      = "auction"
	drainTime = 10 * time.Second
	headBytes = 16 << 10
	// bodyTime is what a client has to send 24 MiB, or to take them.
	bodyTime = 120 * time.Second
	idleTime = 75 * time.Second
	headTime = 10 * time.Second
)

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

// ports of the three services: what is said nowhere else.
var ports = map[string]int{users: 12000, active: 14000, descriptions: 10000}

func run(args []string, env func(string) string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	host := flags.String("host", either(env("HOST"), "127.0.0.1"), "`address` to listen on; also HOST")
	data := flags.String("data", either(env("DATA_DIR"), "auction-data"), "`folder` of the images, of SQLite and of the key of tokens; also DATA_DIR")
	at := map[string]*int{}
	for _, service := range []string{users, active, descriptions} {
		variable := map[string]string{users: "USERS_PORT", active: "ACTIVE_PORT", descriptions: "DESCRIPTIONS_PORT"}[service]
		port := ports[service]
		if text := env(variable); text != "" {
			var err error
			if port, err = parsePort(text); err != nil {
				return process.Fail(stderr, name, process.ExitUsage, fmt.Errorf("%s: %w", variable, err))
			}
		}
		at[service] = &port
		flags.Func(service+"-port", fmt.Sprintf("`port`, 0 for a free one; also %s (default %d)", variable, ports[service]),
			func(text string) (err error) { port, err = parsePort(text); return err })
	}
	if exit, run := process.Parse(flags, args); !run {
		return exit
	}
	database := env("DATABASE_URL")
	places, err := store.Open(*data, database)
	if err != nil {
		return process.Fail(stderr, name, process.ExitUnavailable, fmt.Errorf("cannot open the database (DATABASE_URL, -data): %w", err))
	}
	defer places.Close()
	key, err := tokenKey(env("JWT_SECRET"), filepath.Join(*data, "token.key"))
	if err != nil {
		return process.Fail(stderr, name, process.ExitUsage, err)
	}
	return serve(newAPI(places, key, stderr), *host, at, stdout, stderr)
}

// serve serves the three until SIGTERM or SIGINT; then it takes no new connection, and lets the requests in flight end.
func serve(api *api, host string, at map[string]*int, stdout, stderr io.Writer) int {
	listeners := map[string]net.Listener{}
	for service, port := range at {
		address := net.JoinHostPort(host, strconv.Itoa(*port))
		listener, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%s is in use by another program; stop it, or choose another port with -%s-port", address, service)
		} else if err != nil {
			err = fmt.Errorf("cannot listen on %s: %w", address, err)
		}
		if err != nil {
			return process.Fail(stderr, name, process.ExitUnavailable, err)
		}
		defer listener.Close()
		listeners[service] = listener
	}
	stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	served := make(chan error, len(listeners))
	var servers []*http.Server
	for _, service := range []string{users, active, descriptions} {
		server := &http.Server{
			Handler:           api.handler(service),
			ReadHeaderTimeout: headTime,
			ReadTimeout:       bodyTime,
			WriteTimeout:      2 * bodyTime,
			IdleTimeout:       idleTime,
			MaxHeaderBytes:    headBytes,
		}
		servers = append(servers, server)
		go func() { served <- server.Serve(listeners[service]) }()
		fmt.Fprintf(stdout, "listening on http://%s (%s)\n", listeners[service].Addr(), service)
	}
	select {
	case err := <-served:
		return process.Fail(stderr, name, process.ExitFailure, fmt.Errorf("stopped serving: %w", err))
	case <-stop.Done():
	}
	cancel() // from here on a signal has its default effect
	return drain(servers, stderr)
}

func drain(servers []*http.Server, stderr io.Writer) int {
	deadline, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	ended := make([]error, len(servers))
	var all sync.WaitGroup
	for i, server := range servers {
		all.Go(func() { ended[i] = server.Shutdown(deadline) })
	}
	all.Wait()
	if err := errors.Join(ended...); err != nil {
		return process.Fail(stderr, name, process.ExitFailure, fmt.Errorf("requests were still in flight %s after the signal to stop: %w", drainTime, err))
	}
	return process.ExitOK
}

func parsePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("%q is not a port: want a number from 0 to 65535", text)
	}
	return int(port), nil
}

func either(one, other string) string {
	if one != "" {
		return one
	}
	return other
}
