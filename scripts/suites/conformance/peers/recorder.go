package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// record is a request as net/http has read it; one whose body broke off is not whole.
type record struct {
	reading
	Protocol string `json:"protocol"`
	IsWhole  bool   `json:"whole"`
}

// recorder is an upstream over HTTP/1.1 and HTTP/2 that keeps what it has read of each request. Its second listener gives that out, once, when no request is in
// flight.
func recorder(args []string) {
	flags := flag.NewFlagSet("recorder", flag.ExitOnError)
	cert := flags.String("cert", "", "certificate `file`; with it the upstream serves TLS")
	key := flags.String("key", "", "key `file`")
	die(flags.Parse(args))
	var lock sync.Mutex
	idle := sync.NewCond(&lock)
	records, inFlight := []record{}, 0
	serve := func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		inFlight++
		lock.Unlock()
		body, err := io.ReadAll(r.Body)
		sum := sha256.Sum256(body)
		lock.Lock()
		records = append(records, record{reading{
			Method: []byte(r.Method), Target: []byte(r.RequestURI), Host: []byte(r.Host),
			Fields: pairs(r.Header), Trailers: pairs(r.Trailer),
			Length: len(body), SHA256: hex.EncodeToString(sum[:]),
		}, r.Proto, err == nil})
		inFlight--
		idle.Broadcast()
		lock.Unlock()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "ok")
	}
	take := func(w http.ResponseWriter, _ *http.Request) {
		lock.Lock()
		for inFlight > 0 {
			idle.Wait()
		}
		taken := records
		records = []record{}
		lock.Unlock()
		die(json.NewEncoder(w).Encode(taken))
	}
	control, err := net.Listen("tcp", "127.0.0.1:0")
	die(err)
	go http.Serve(control, http.HandlerFunc(take))
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: http.HandlerFunc(serve), Protocols: protocols, ReadHeaderTimeout: time.Minute}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	die(err)
	fmt.Printf("listening on %s, control on %s\n", listener.Addr(), control.Addr())
	if *cert == "" {
		die(server.Serve(listener))
	}
	die(server.ServeTLS(listener, *cert, *key))
}
