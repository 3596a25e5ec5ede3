//go:build unix

package sandbox

import (
	"os"
	"syscall"
)

// lockFolder takes the lock of a folder of this user, which ends with the
// process at the latest; false: another process has it.
func lockFolder(path string) (unlock func(), ok bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		return nil, false
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, false
	}
	if syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		dir.Close()
		return nil, false
	}
	return func() { dir.Close() }, true
}

// makeTemp makes a temporary folder for a program, and what removes it.
func makeTemp() (path string, remove func(), err error) {
	for {
		if path, err = os.MkdirTemp("", tempPattern); err != nil {
			return "", nil, err
		}
		if unlock, ok := lockFolder(path); ok {
			if _, err := os.Lstat(path); err == nil { // nobody has taken it for a leftover
				return path, func() { _ = removeTemp(path); unlock() }, nil
			}
			unlock()
		}
	}
}
