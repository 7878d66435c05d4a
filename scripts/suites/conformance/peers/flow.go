package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// What docs/http2.md says that a gateway holds of responses that clients have not received, in bytes: of a stream, what waits for the client's window, one read
// from the upstream, and the window of the stream to the target (65-flow.sh); of a connection, its output. The rest is the exchange itself and the tables of
// both connections.
const (
	perStream     = 16<<10 + 128<<10 + 64<<10 + 8<<10
	perConnection = 64<<10 + 64<<10
)

// flow holds a gateway to its flow control: clients that read slowly, and a stream that is not read beside streams that are.
func flow(args []string) {
	flags := flag.NewFlagSet("flow", flag.ExitOnError)
	url := flags.String("url", "", "`URL` of the gateway, in clear text")
	pid := flags.Int("pid", 0, "process of the gateway")
	connections := flags.Int("connections", 1000, "connections of slow readers")
	die(flags.Parse(args))
	passed, failed := 0, 0
	report := func(name, said string, err error) {
		if err != nil {
			fmt.Printf("FAIL %s: %v\n", name, err)
			failed++
			return
		}
		fmt.Printf("ok %s: %s\n", name, said)
		passed++
	}
	for _, authority := range []string{"h1.test", "h2.test"} {
		said, err := stalledBesideFast(*url, authority)
		report("one stalled stream beside 99 fast ones, "+authority, said, err)
	}
	said, err := slowReaders(*url, *pid, *connections)
	report("slow readers", said, err)
	fmt.Printf("%d passed, %d failed, 0 skipped\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

// slowReaders has 100 responses on each of many connections. Each stream gets a kibibyte of window, three times, and no more: what the gateway has read
// from its upstream meanwhile is bounded, every stream gets just what its window allows, and none is given up.
func slowReaders(url string, pid, connections int) (string, error) {
	const rounds, piece = 3, 1024
	base, err := resident(pid)
	if err != nil {
		return "", err
	}
	readers := make([]*slowReader, connections)
	for i := range readers {
		if readers[i], err = newSlowReader(url); err != nil {
			return "", fmt.Errorf("connection %d: %w", i, err)
		}
		defer readers[i].Close()
	}
	peak := base
	for round := range rounds {
		var wrong error
		var all sync.WaitGroup
		var lock sync.Mutex
		// As many at once as there is work for.
		room := make(chan struct{}, 64)
		for i, reader := range readers {
			room <- struct{}{}
			all.Go(func() {
				defer func() { <-room }()
				if err := reader.take(piece); err != nil {
					lock.Lock()
					wrong = errors.Join(wrong, fmt.Errorf("connection %d, round %d: %w", i, round, err))
					lock.Unlock()
				}
			})
			if i%50 == 0 {
				now, err := resident(pid)
				if err != nil {
					return "", err
				}
				peak = max(peak, now)
			}
		}
		all.Wait()
		if wrong != nil {
			return "", wrong
		}
	}
	now, err := resident(pid)
	if err != nil {
		return "", err
	}
	peak = max(peak, now)
	grown, open := peak-base, connections*streams
	most := open*perStream + connections*perConnection
	if grown > most {
		return "", fmt.Errorf("the gateway grew by %d MiB, above %d MiB", grown>>20, most>>20)
	}
	return fmt.Sprintf("%d connections with %d streams each, %d bytes to each stream, +%d MiB (%d KiB a stream), at most %d MiB are documented",
		connections, streams, rounds*piece, grown>>20, grown/open>>10, most>>20), nil
}

type slowReader struct {
	*peer
	got map[uint32]int
	due int
}

func newSlowReader(url string) (*slowReader, error) {
	peer, err := dialPlain(url)
	if err != nil {
		return nil, err
	}
	out := appendFrame([]byte(preface), frameSettings, 0, 0, setting(settingInitialWindow, 0))
	// The window of the connection is never what stops a stream.
	out = appendNumber(out, frameWindowUpdate, 0, 1<<24)
	block := get("h2.test", "/endless")
	reader := &slowReader{peer: peer, got: map[uint32]int{}}
	for i := range uint32(streams) {
		out = appendFrame(out, frameHeaders, flagEndHeaders|flagEnd, 2*i+1, block)
		reader.got[2*i+1] = 0
	}
	_, err = peer.Write(out)
	return reader, err
}

// take gives each stream so much window, and reads until all have used it up.
func (r *slowReader) take(piece int) error {
	var out []byte
	for stream := range r.got {
		out = appendNumber(out, frameWindowUpdate, stream, uint32(piece))
	}
	if _, err := r.Write(out); err != nil {
		return err
	}
	r.due += piece
	missing := len(r.got)
	for missing > 0 {
		r.SetReadDeadline(time.Now().Add(2 * time.Minute))
		f, err := r.next()
		if err != nil {
			return fmt.Errorf("%d streams got less than they may: %w", missing, err)
		}
		switch f.kind {
		case frameData:
			r.got[f.stream] += len(f.payload)
			if r.got[f.stream] > r.due {
				return fmt.Errorf("stream %d got %d bytes of a window of %d", f.stream, r.got[f.stream], r.due)
			}
			if r.got[f.stream] == r.due {
				missing--
			}
		case frameReset, frameGoAway:
			return fmt.Errorf("frame %d on stream %d: %x", f.kind, f.stream, f.payload)
		}
	}
	return nil
}

// stalledBesideFast has two connections at once, both with 99 streams that take all that comes; one of them has a further stream that takes nothing.
// Neither may get less than nine tenths of what the other gets in the same time.
func stalledBesideFast(url, authority string) (string, error) {
	const rounds, round = 3, 6 * time.Second
	var shares []float64
	var total int64
	for range rounds {
		var got [2]atomic.Int64
		var errs [2]error
		var all sync.WaitGroup
		end := time.Now().Add(round)
		for i := range got {
			all.Go(func() { errs[i] = readFast(url, authority, i == 1, end, &got[i]) })
		}
		all.Wait()
		if err := errors.Join(errs[:]...); err != nil {
			return "", err
		}
		plain, beside := got[0].Load(), got[1].Load()
		total += plain + beside
		shares = append(shares, float64(beside)/float64(plain))
	}
	slices.Sort(shares)
	median := shares[rounds/2]
	said := fmt.Sprintf("%.2f of the rate without it (%.2f to %.2f in %d rounds), %d MiB", median, shares[0], shares[rounds-1], rounds, total>>20)
	if median < 0.9 {
		return "", errors.New(said)
	}
	return said, nil
}

// readFast reads 99 streams until a moment and counts their bytes; a stalled one gets none of the window that it would need.
func readFast(url, authority string, hasStalled bool, end time.Time, got *atomic.Int64) error {
	peer, err := dialPlain(url)
	if err != nil {
		return err
	}
	defer peer.Close()
	const window = 1 << 20
	out := appendFrame([]byte(preface), frameSettings, 0, 0, setting(settingInitialWindow, initialWindow))
	out = appendNumber(out, frameWindowUpdate, 0, 1<<30)
	block := get(authority, "/endless")
	first, stalled := uint32(1), 0
	if hasStalled {
		out = appendFrame(out, frameHeaders, flagEndHeaders|flagEnd, 1, block)
		first = 3
	}
	for i := range uint32(streams - 1) {
		stream := first + 2*i
		out = appendFrame(out, frameHeaders, flagEndHeaders|flagEnd, stream, block)
		out = appendNumber(out, frameWindowUpdate, stream, window)
	}
	if _, err := peer.Write(out); err != nil {
		return err
	}
	counts, unpaid := map[uint32]int{}, map[uint32]int{}
	for time.Now().Before(end) {
		peer.SetReadDeadline(end.Add(time.Minute))
		f, err := peer.next()
		if err != nil {
			return err
		}
		switch {
		case f.kind == frameReset || f.kind == frameGoAway:
			return fmt.Errorf("frame %d on stream %d: %x", f.kind, f.stream, f.payload)
		case f.kind != frameData:
		case hasStalled && f.stream == 1:
			if stalled += len(f.payload); stalled > initialWindow {
				return fmt.Errorf("the stalled stream got %d bytes of a window of %d", stalled, initialWindow)
			}
		default:
			size := len(f.payload)
			got.Add(int64(size))
			counts[f.stream] += size
			// Credit as large as a quarter of the window: a frame for each piece would be an attack.
			if unpaid[f.stream] += size; unpaid[f.stream] >= window/4 {
				update := appendNumber(nil, frameWindowUpdate, f.stream, uint32(unpaid[f.stream]))
				update = appendNumber(update, frameWindowUpdate, 0, uint32(unpaid[f.stream]))
				unpaid[f.stream] = 0
				if _, err := peer.Write(update); err != nil {
					return err
				}
			}
		}
	}
	if hasStalled && stalled != initialWindow {
		return fmt.Errorf("the stalled stream got %d bytes, not the %d of its window", stalled, initialWindow)
	}
	// Each got something: a stream that waits for the stalled one gets nothing.
	if len(counts) != streams-1 {
		return fmt.Errorf("only %d of %d streams got anything", len(counts), streams-1)
	}
	return nil
}

var residentLine = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// resident is the memory of a process, in bytes.
func resident(pid int) (int, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	found := residentLine.FindSubmatch(status)
	if found == nil {
		return 0, fmt.Errorf("no VmRSS of process %d", pid)
	}
	kib, err := strconv.Atoi(string(found[1]))
	return kib << 10, err
}
