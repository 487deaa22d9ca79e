//go:build tools

// Package kwok names the program that go.mod and go.sum are complete for.
package kwok

import _ "sigs.k8s.io/kwok/cmd/kwok"
