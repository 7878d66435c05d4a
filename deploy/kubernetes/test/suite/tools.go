//go:build tools

// Package suite holds what is built for the tests, so that go.sum pins it.
package suite

import (
	_ "sigs.k8s.io/gateway-api/conformance"
	_ "sigs.k8s.io/gateway-api/conformance/echo-basic"
)
