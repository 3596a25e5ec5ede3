//go:build unix

package secret

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs reports whether a file belongs to the user that this process runs
// as, or to root.
func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Uid == uint32(os.Geteuid()) || st.Uid == 0
}
