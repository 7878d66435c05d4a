package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// reading is what net/http made of one request; texts are bytes, which JSON has in base64.
type reading struct {
	Method   []byte      `json:"method"`
	Target   []byte      `json:"target"`
	Host     []byte      `json:"host"`
	Fields   [][2][]byte `json:"fields"`
	Trailers [][2][]byte `json:"trailers"`
	Length   int         `json:"length"`
	SHA256   string      `json:"sha256"`
}

// reader responds to every request that is complete with a field X-Reading, which says how it was read. A field, so that HEAD has it too.
func reader(args []string) {
	flags := flag.NewFlagSet("reader", flag.ExitOnError)
	die(flags.Parse(args))
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			// Not a whole request: the connection ends without a response.
			panic(http.ErrAbortHandler)
		}
		sum := sha256.Sum256(body)
		text, err := json.Marshal(reading{
			Method: []byte(r.Method), Target: []byte(r.RequestURI), Host: []byte(r.Host),
			Fields: pairs(r.Header), Trailers: pairs(r.Trailer),
			Length: len(body), SHA256: hex.EncodeToString(sum[:]),
		})
		die(err)
		w.Header().Set("X-Reading", base64.StdEncoding.EncodeToString(text))
		w.Header().Set("Content-Length", "0")
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	server := &http.Server{Handler: http.HandlerFunc(handler), Protocols: protocols, ReadHeaderTimeout: time.Minute}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	die(err)
	fmt.Printf("listening on http://%s\n", listener.Addr())
	die(server.Serve(listener))
}

func pairs(header http.Header) [][2][]byte {
	list := [][2][]byte{}
	for name, values := range header {
		for _, value := range values {
			list = append(list, [2][]byte{[]byte(name), []byte(value)})
		}
	}
	return list
}
