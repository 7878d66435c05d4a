package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// upstream serves:
//
//	/             "hello"
//	/bytes/N      N bytes of the pattern
//	/echo         the request body as it arrives, then its trailers with x-echo- before their names
//	/sum          the SHA-256 of the request body, in hex
//	/protocol     the protocol of the request
//	/status/N     an empty response with this status
//	/endless      the pattern, until the client has gone
//	/open         how many requests for /endless are in flight
func upstream(args []string) {
	flags := flag.NewFlagSet("upstream", flag.ExitOnError)
	cert := flags.String("cert", "", "certificate `file`; with it the upstream serves TLS")
	key := flags.String("key", "", "key `file`")
	die(flags.Parse(args))

	var endless atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	mux.HandleFunc("/bytes/{n}", func(w http.ResponseWriter, r *http.Request) {
		size, err := strconv.Atoi(r.PathValue("n"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(size))
		for sent := 0; sent < size; {
			piece := min(size-sent, 64<<10)
			if _, err := w.Write(pattern(sent, piece)); err != nil {
				return
			}
			sent += piece
		}
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("X-Content-Length", strconv.FormatInt(r.ContentLength, 10))
		buffer := make([]byte, 32<<10)
		for {
			n, err := r.Body.Read(buffer)
			if n > 0 {
				if _, err := w.Write(buffer[:n]); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				panic(http.ErrAbortHandler)
			}
		}
		for name, values := range r.Trailer {
			w.Header().Set(http.TrailerPrefix+"X-Echo-"+name, strings.Join(values, ", "))
		}
	})
	mux.HandleFunc("/sum", func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		if _, err := io.Copy(sum, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, hex.EncodeToString(sum.Sum(nil)))
	})
	mux.HandleFunc("/protocol", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })
	mux.HandleFunc("/status/{n}", func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.PathValue("n"))
		w.WriteHeader(status)
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		endless.Add(1)
		defer endless.Add(-1)
		for sent := 0; ; sent += 16 << 10 {
			if _, err := w.Write(pattern(sent, 16<<10)); err != nil || r.Context().Err() != nil {
				return
			}
		}
	})
	mux.HandleFunc("/open", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, endless.Load()) })

	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: mux, Protocols: protocols, ReadHeaderTimeout: time.Minute}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	die(err)
	if *cert == "" {
		fmt.Printf("listening on http://%s\n", listener.Addr())
		die(server.Serve(listener))
	}
	fmt.Printf("listening on https://%s\n", listener.Addr())
	die(server.ServeTLS(listener, *cert, *key))
}
