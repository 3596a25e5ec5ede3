//go:build linux && !amd64 && !arm64

package sandbox

import (
	"runtime"

	"steward/internal/fault"
)

// filter is not known for this machine's system calls.
func filter(bool) ([]byte, error) {
	return nil, fault.New(fault.Unsupported, "sandbox_unavailable", "there is no filter of system calls for %s", runtime.GOARCH)
}
