package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// machine measures what mainly costs a durable turn time besides computing: a
// system call and a synced write.
func machine() (string, error) {
	const calls, syncs = 200_000, 300
	began := time.Now()
	for range calls {
		syscall.Getppid()
	}
	call := time.Since(began) / calls
	dir, err := os.MkdirTemp("", "steward-bench-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	f, err := os.Create(filepath.Join(dir, "sync"))
	if err != nil {
		return "", err
	}
	defer f.Close()
	page := make([]byte, 4096)
	began = time.Now()
	for i := range syncs {
		if _, err := f.WriteAt(page, int64(i)*4096); err != nil {
			return "", err
		}
		if err := f.Sync(); err != nil {
			return "", err
		}
	}
	sync := time.Since(began) / syncs
	return fmt.Sprintf("This machine: %d ns a system call (getppid), %d µs a synced write of 4 KB.", call.Nanoseconds(), sync.Microseconds()), nil
}
