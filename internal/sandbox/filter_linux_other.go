//go:build linux && !amd64 && !arm64

package sandbox

import (
	"runtime"

	"steward/internal/fault"
)

// filter fails: the system calls of this architecture are unknown.
func filter(bool) ([]byte, error) {
	return nil, fault.New(fault.Unsupported, "sandbox_unavailable", "there is no filter of system calls for %s", runtime.GOARCH)
}
