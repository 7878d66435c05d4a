//go:build tools

// Package grpc holds what is built for the tests, so that go.sum pins it.
package grpc

import (
	_ "google.golang.org/grpc/interop/client"
	_ "google.golang.org/grpc/interop/server"
)
