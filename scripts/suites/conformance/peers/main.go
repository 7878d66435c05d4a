// Command peers is both ends of the conformance suites in Go: an upstream on net/http, a client that holds a gateway to it, and an upstream that
// says how it has read a request; and both ends of the flow-control suite.
//
//	peers upstream [-cert FILE -key FILE] [-protocols h1,h2c]
//	peers client -url URL [-ca FILE] -protocol h1|h2|h2c [-files]
//	peers reader
//	peers recorder [-cert FILE -key FILE]
//	peers endless
//	peers flow -url URL -pid PID [-connections N]
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: peers upstream|client|reader|recorder|endless|flow [options]")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "upstream":
		upstream(os.Args[2:])
	case "client":
		client(os.Args[2:])
	case "reader":
		reader(os.Args[2:])
	case "recorder":
		recorder(os.Args[2:])
	case "endless":
		endless(os.Args[2:])
	case "flow":
		flow(os.Args[2:])
	default:
		fmt.Fprintf(os.Stderr, "unknown command %q; expected one of upstream, client, reader, recorder, endless, flow\n", os.Args[1])
		os.Exit(2)
	}
}

// pattern is the content of every body: byte i is i modulo 251, so that a byte lost, moved or sent twice is seen.
func pattern(offset, size int) []byte {
	body := make([]byte, size)
	for i := range body {
		body[i] = byte((offset + i) % 251)
	}
	return body
}

func die(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
