//go:build tools

// Package h2spec holds what is built for the tests, so that go.sum pins it.
package h2spec

import _ "github.com/summerwind/h2spec/cmd/h2spec"
