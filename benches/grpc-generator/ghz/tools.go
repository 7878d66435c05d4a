//go:build tools

// Package ghz holds what is built for the bench, so that go.sum pins it.
package ghz

import (
	_ "github.com/bojand/ghz/cmd/ghz"
)
