package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	large   = 32 << 20
	medium  = 300_000
	streams = 100
)

type tester struct {
	url      string
	protocol string
	http     *http.Client
}

// client runs every case, prints a line for each and their counts, and fails when one failed. -files leaves out what needs more than files.
func client(args []string) {
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	url := flags.String("url", "", "the gateway's `URL`")
	ca := flags.String("ca", "", "`file` of the authority that its certificate is held to")
	protocol := flags.String("protocol", "h2", "h1, h2 (over TLS) or h2c")
	files := flags.Bool("files", false, "the upstream serves files only")
	die(flags.Parse(args))

	transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true, MaxIdleConnsPerHost: streams}
	switch *protocol {
	case "h1":
		transport.Protocols.SetHTTP1(true)
	case "h2":
		transport.Protocols.SetHTTP2(true)
	case "h2c":
		transport.Protocols.SetUnencryptedHTTP2(true)
	default:
		die(fmt.Errorf("unknown protocol %q; expected one of h1, h2, h2c", *protocol))
	}
	if *ca != "" {
		pem, err := os.ReadFile(*ca)
		die(err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	t := &tester{url: *url, protocol: *protocol, http: &http.Client{Transport: transport, Timeout: 2 * time.Minute}}
	cases := []struct {
		name  string
		files bool
		run   func() error
	}{
		{"get", true, t.get},
		{"head", true, t.head},
		{"large_response", true, t.largeResponse},
		{"many_streams", true, t.manyStreams},
		{"statuses_without_body", false, t.statuses},
		{"post", false, t.post},
		{"post_of_unknown_length", false, t.postUnknown},
		{"empty_post", false, t.emptyPost},
		{"both_directions_at_once", false, t.duplex},
		{"large_request", false, t.largeRequest},
		{"trailers", false, t.trailers},
		{"cancelled_response", false, t.cancel},
	}
	passed, failed := 0, 0
	for _, c := range cases {
		if *files && !c.files {
			continue
		}
		if err := c.run(); err != nil {
			fmt.Printf("FAIL %s: %v\n", c.name, err)
			failed++
		} else {
			fmt.Printf("ok %s\n", c.name)
			passed++
		}
	}
	fmt.Printf("%d passed, %d failed, 0 skipped\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func (t *tester) do(method, path string, body io.Reader) (*http.Response, []byte, error) {
	request, err := http.NewRequest(method, t.url+path, body)
	if err != nil {
		return nil, nil, err
	}
	return t.send(request)
}

func (t *tester) send(request *http.Request) (*http.Response, []byte, error) {
	response, err := t.http.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("body after %d bytes: %w", len(content), err)
	}
	if want := map[string]int{"h1": 1, "h2": 2, "h2c": 2}[t.protocol]; response.ProtoMajor != want {
		return nil, nil, fmt.Errorf("protocol %s", response.Proto)
	}
	return response, content, nil
}

func expect(response *http.Response, content []byte, err error, status int, want []byte) error {
	switch {
	case err != nil:
		return err
	case response.StatusCode != status:
		return fmt.Errorf("status %d, body %.200q", response.StatusCode, content)
	case !bytes.Equal(content, want):
		return fmt.Errorf("body of %d bytes is not the expected one of %d bytes", len(content), len(want))
	}
	return nil
}

func (t *tester) get() error {
	response, content, err := t.do("GET", "/bytes/1000", nil)
	return expect(response, content, err, 200, pattern(0, 1000))
}

func (t *tester) head() error {
	response, content, err := t.do("HEAD", "/bytes/1000", nil)
	if err := expect(response, content, err, 200, nil); err != nil {
		return err
	}
	if response.ContentLength != 1000 {
		return fmt.Errorf("Content-Length %d", response.ContentLength)
	}
	return nil
}

func (t *tester) largeResponse() error {
	response, content, err := t.do("GET", fmt.Sprintf("/bytes/%d", large), nil)
	return expect(response, content, err, 200, pattern(0, large))
}

// manyStreams has 100 requests in flight, 20 times one after the other, each with a length of its own.
func (t *tester) manyStreams() error {
	errs := make([]error, streams)
	var all sync.WaitGroup
	for i := range streams {
		all.Go(func() {
			for range 20 {
				size := 1000
				if i%10 == 0 {
					size = medium
				}
				response, content, err := t.do("GET", fmt.Sprintf("/bytes/%d", size), nil)
				if err := expect(response, content, err, 200, pattern(0, size)); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (t *tester) statuses() error {
	for _, status := range []int{204, 304, 404, 503} {
		response, content, err := t.do("GET", fmt.Sprintf("/status/%d", status), nil)
		if err := expect(response, content, err, status, nil); err != nil {
			return err
		}
	}
	return nil
}

func (t *tester) post() error {
	response, content, err := t.do("POST", "/echo", bytes.NewReader(pattern(0, medium)))
	if err := expect(response, content, err, 200, pattern(0, medium)); err != nil {
		return err
	}
	if got := response.Header.Get("X-Content-Length"); got != fmt.Sprint(medium) {
		return fmt.Errorf("the upstream was told a length of %q", got)
	}
	return nil
}

func (t *tester) postUnknown() error {
	response, content, err := t.do("POST", "/echo", io.MultiReader(bytes.NewReader(pattern(0, medium))))
	return expect(response, content, err, 200, pattern(0, medium))
}

func (t *tester) emptyPost() error {
	response, content, err := t.do("POST", "/echo", nil)
	return expect(response, content, err, 200, nil)
}

// duplex sends the next piece only when the last one has come back: neither side may wait for the other's end.
func (t *tester) duplex() error {
	reader, writer := io.Pipe()
	request, err := http.NewRequest("POST", t.url+"/echo", reader)
	if err != nil {
		return err
	}
	go writer.Write(pattern(0, 1000))
	response, err := t.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	for piece := range 50 {
		got := make([]byte, 1000)
		if _, err := io.ReadFull(response.Body, got); err != nil {
			return fmt.Errorf("piece %d: %w", piece, err)
		}
		if !bytes.Equal(got, pattern(1000*piece, 1000)) {
			return fmt.Errorf("piece %d is another one", piece)
		}
		if piece < 49 {
			go writer.Write(pattern(1000*(piece+1), 1000))
		}
	}
	writer.Close()
	rest, err := io.ReadAll(response.Body)
	if err != nil || len(rest) > 0 {
		return fmt.Errorf("%d bytes after the end, %v", len(rest), err)
	}
	return nil
}

func (t *tester) largeRequest() error {
	body := pattern(0, large)
	sum := sha256.Sum256(body)
	response, content, err := t.do("POST", "/sum", bytes.NewReader(body))
	return expect(response, content, err, 200, []byte(hex.EncodeToString(sum[:])))
}

func (t *tester) trailers() error {
	request, err := http.NewRequest("POST", t.url+"/echo", io.MultiReader(strings.NewReader("hello")))
	if err != nil {
		return err
	}
	request.Header.Set("TE", "trailers")
	request.Trailer = http.Header{"X-Sum": {"12345"}}
	response, content, err := t.send(request)
	if err := expect(response, content, err, 200, []byte("hello")); err != nil {
		return err
	}
	if got := response.Trailer.Get("X-Echo-X-Sum"); got != "12345" {
		return fmt.Errorf("trailers %v", response.Trailer)
	}
	return nil
}

// cancel gives up a response in the middle: the upstream learns of it, and other requests go on.
func (t *tester) cancel() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	request, err := http.NewRequestWithContext(ctx, "GET", t.url+"/endless", nil)
	if err != nil {
		return err
	}
	response, err := t.http.Do(request)
	if err != nil {
		return err
	}
	got := make([]byte, 100_000)
	if _, err := io.ReadFull(response.Body, got); err != nil {
		return err
	}
	if !bytes.Equal(got, pattern(0, len(got))) {
		return errors.New("the response is another one")
	}
	stop()
	response.Body.Close()
	for range 200 {
		_, content, err := t.do("GET", "/open", nil)
		if err != nil {
			return err
		}
		if string(content) == "0" {
			return t.get()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("the upstream still sends the response that its client has cancelled")
}
