// Command interop serves gRPC's service for interoperability tests, and the reflection of the server, on a free port that it prints.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"
)

func main() {
	certificate := flag.String("cert", "", "PEM file; with it the server speaks TLS")
	key := flag.String("key", "", "PEM file of the certificate's key")
	address := flag.String("listen", "127.0.0.1:0", "address")
	flag.Parse()
	var options []grpc.ServerOption
	if *certificate != "" {
		secure, err := credentials.NewServerTLSFromFile(*certificate, *key)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.Creds(secure))
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(options...)
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	reflection.Register(server)
	fmt.Printf("listening on %s\n", listener.Addr())
	log.Fatal(server.Serve(listener))
}
