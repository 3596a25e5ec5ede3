//go:build linux && !amd64 && !arm64

package sandbox

import (
	"runtime"

	"steward/internal/fault"
)

// filter fails: the system calls of this architecture are unknown.
func filter(bool) ([]byte, error) {
	return nil, fault.New(fault.Unsupported, "sandbox_unavailable", "system calls cannot be filtered on %s", runtime.GOARCH)
}
