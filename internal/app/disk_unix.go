//go:build unix

package app

import "golang.org/x/sys/unix"

// freeSpace returns how many bytes a program without privileges can still write to the disk of a folder.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
