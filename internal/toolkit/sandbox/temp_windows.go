package sandbox

import "os"

// lockFolder cannot tell here whose a folder is.
func lockFolder(string) (unlock func(), ok bool) { return nil, false }

// makeTemp makes a temporary folder for a program, and what removes it.
func makeTemp() (path string, remove func(), err error) {
	path, err = os.MkdirTemp("", tempPattern)
	return path, func() { _ = removeTemp(path) }, err
}
