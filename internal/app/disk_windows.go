package app

import "golang.org/x/sys/windows"

// freeSpace returns how many bytes can still be written to the disk of a folder.
func freeSpace(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return int64(free), err
}
