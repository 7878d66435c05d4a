//go:build tools

// Package etcd holds what is built for the tests, so that go.sum pins it.
package etcd

import _ "go.etcd.io/etcd/server/v3"
