//go:build tools

// Package apiserver holds what is built for the tests, so that go.sum pins it.
package apiserver

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
