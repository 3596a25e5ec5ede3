package watch

import (
	"io/fs"
	"syscall"
	"time"
)

// Touched is when the system last noted a change of a file. Unlike the time
// that the file shows, nobody can set it back.
func Touched(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return time.Time{}
}
