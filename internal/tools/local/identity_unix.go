//go:build unix

package local

import (
	"io/fs"
	"syscall"
)

// identity returns a file's inode and how many names it has.
func identity(info fs.FileInfo) (id inode, links uint64, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id, 0, false
	}
	return inode{uint64(st.Dev), uint64(st.Ino)}, uint64(st.Nlink), true //nolint:unconvert // their types differ between systems
}
