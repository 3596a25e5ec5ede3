package disk

import "golang.org/x/sys/unix"

// Mounted reports whether something is mounted at a path, so that it cannot be renamed. A kernel older than Linux 5.8
// does not say.
func Mounted(path string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st)
	return err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
