// Load for the event-ingestion services, the same style over REST and gRPC: a closed loop of users, each with one
// connection that it keeps. The result is one JSON object on standard output.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// options is what a run is told.
type options struct {
	protocol, address string
	users             int
	duration, warmUp  time.Duration
	// events ends the run after so many, instead of duration.
	events int64
	// bytes is the size of an event's JSON, about.
	bytes int
	// keys is the number of entities that events are spread over; 0 makes each event's entities its own.
	keys      int64
	entities  int
	histogram bool
}

// user sends events over one connection.
type user interface {
	// send sends event n; the error's text is counted by kind.
	send(ctx context.Context, n int64) error
	close()
}

// result is what is printed. Times are in milliseconds; percentiles are of the sample, absent below 1000 requests.
type result struct {
	Requests    int64            `json:"requests"`
	Errors      int64            `json:"errors"`
	Kinds       map[string]int64 `json:"error_kinds"`
	Seconds     float64          `json:"seconds"`
	Rate        float64          `json:"requests_per_second"`
	Mean        float64          `json:"mean_ms"`
	P50         *float64         `json:"p50_ms"`
	P95         *float64         `json:"p95_ms"`
	P99         *float64         `json:"p99_ms"`
	Max         float64          `json:"max_ms"`
	Connections int64            `json:"connections_opened"`
	Users       int              `json:"users"`
	EventBytes  int              `json:"event_bytes"`
	// Histogram has the number of requests that took so many hundredths of a millisecond; only with -histogram. Runs
	// are put together by it: percentiles cannot be averaged.
	Histogram map[int64]int64 `json:"histogram,omitempty"`
}

// opened counts connections.
var opened atomic.Int64

func dial(ctx context.Context, address string) (net.Conn, error) {
	opened.Add(1)
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", address)
}

func main() {
	var o options
	flag.StringVar(&o.protocol, "protocol", "rest", "rest or grpc")
	flag.StringVar(&o.address, "address", "", "host:port of the service")
	flag.IntVar(&o.users, "users", 50, "users, each with one connection")
	flag.DurationVar(&o.duration, "duration", 30*time.Second, "how long to measure")
	flag.DurationVar(&o.warmUp, "warm-up", 0, "how long to load before measuring")
	flag.Int64Var(&o.events, "events", 0, "send exactly so many events instead")
	flag.IntVar(&o.bytes, "bytes", 400, "size of an event's JSON, about")
	flag.Int64Var(&o.keys, "keys", 10_000, "entities to spread events over; 0: every event has its own")
	flag.IntVar(&o.entities, "entities", 1, "entities of an event")
	flag.BoolVar(&o.histogram, "histogram", false, "print the histogram of times too")
	flag.Parse()
	if o.address == "" || o.users < 1 || o.entities < 1 || o.protocol != "rest" && o.protocol != "grpc" {
		fmt.Fprintln(os.Stderr, "error: give -address host:port and -protocol rest or grpc; users and entities are at least 1")
		os.Exit(64)
	}
	found, err := run(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		os.Exit(1)
	}
}

// sample is what one user saw while measuring.
type sample struct {
	times  []time.Duration
	errors map[string]int64
}

func run(o options) (result, error) {
	attributes := makeAttributes(o.bytes, o.entities)
	connect := newRestUser
	if o.protocol == "grpc" {
		connect = newGrpcUser
	}
	users := make([]user, o.users)
	for i := range users {
		made, err := connect(o, attributes)
		if err != nil {
			return result{}, err
		}
		defer made.close()
		users[i] = made
	}

	var next atomic.Int64
	begin := time.Now().Add(o.warmUp)
	end := begin.Add(o.duration)
	samples := make([]sample, o.users)
	var all sync.WaitGroup
	for i := range users {
		all.Go(func() {
			own := sample{errors: map[string]int64{}}
			for {
				n := next.Add(1) - 1
				start := time.Now()
				if o.events > 0 && n >= o.events || o.events == 0 && !start.Before(end) {
					break
				}
				err := users[i].send(context.Background(), n)
				if start.Before(begin) {
					continue
				}
				own.times = append(own.times, time.Since(start))
				if err != nil {
					own.errors[err.Error()]++
				}
			}
			samples[i] = own
		})
	}
	all.Wait()
	return summarize(o, samples, time.Since(begin), len(body(attributes, o, 0))), nil
}

func summarize(o options, samples []sample, took time.Duration, eventBytes int) result {
	found := result{Kinds: map[string]int64{}, Seconds: took.Seconds(), Connections: opened.Load(), Users: o.users, EventBytes: eventBytes}
	var times []time.Duration
	var sum time.Duration
	for _, own := range samples {
		times = append(times, own.times...)
		for kind, count := range own.errors {
			found.Kinds[kind] += count
			found.Errors += count
		}
	}
	slices.Sort(times)
	if o.histogram {
		found.Histogram = map[int64]int64{}
	}
	for _, t := range times {
		sum += t
		if o.histogram {
			found.Histogram[t.Microseconds()/10]++
		}
	}
	found.Requests = int64(len(times))
	found.Rate = float64(len(times)) / took.Seconds()
	if len(times) == 0 {
		return found
	}
	millis := func(t time.Duration) float64 { return float64(t.Microseconds()) / 1000 }
	found.Mean = millis(sum / time.Duration(len(times)))
	found.Max = millis(times[len(times)-1])
	if len(times) >= 1000 {
		quantile := func(q float64) *float64 {
			value := millis(times[int(q*float64(len(times)-1))])
			return &value
		}
		found.P50, found.P95, found.P99 = quantile(.5), quantile(.95), quantile(.99)
	}
	return found
}
