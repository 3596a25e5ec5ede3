package watch

import (
	"io/fs"
	"syscall"
	"time"
)

// Touched returns the time at which the system last recorded a change of a
// file (ctime). Unlike the modification time, it cannot be set back.
func Touched(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return time.Time{}
}
