//go:build !linux || !long

package cluster

// inside is for the long tests.
func inside() {}
