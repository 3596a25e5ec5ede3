//go:build !linux

package edge

import "testing"

func storeOf(testing.TB) []string { return nil }

func runTests(m *testing.M) int { return m.Run() }
