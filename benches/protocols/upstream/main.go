// The upstream of the bench for what nginx does not serve: unary gRPC, and responses that stay open. HTTP/1.1 and HTTP/2 without TLS on one port, which it
// prints. No gRPC library: a unary call is a message in a frame of five bytes and a status in the trailers (grpc/doc/PROTOCOL-HTTP2.md).
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
)

// Bytes of a unary response's message.
const messageBytes = 100

func main() {
	address := "127.0.0.1:0"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:   http.HandlerFunc(serve),
		Protocols: &protocols,
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: 1000},
	}
	log.Fatal(server.Serve(listener))
}

func serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc"):
		unary(w, r)
	case r.URL.Path == "/open":
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "open\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		http.NotFound(w, r)
	}
}

func unary(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	frame := make([]byte, 5+messageBytes)
	binary.BigEndian.PutUint32(frame[1:], messageBytes)
	// A field of bytes: number 1, length 98.
	frame[5], frame[6] = 0x0a, messageBytes-2
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	w.Write(frame)
}
