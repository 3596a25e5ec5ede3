// Package disk has what Go's own library lacks about files and disks, for each system that Steward is built for:
// locks between processes, folders whose names are durable, the space that is left, and what this process may do
// with a path.
//
// A lock belongs to an open file. The kernel releases it when the file is closed or the process ends, however it
// ends, so no lock is ever left behind. A lock file is never removed: if it were, two processes could lock two
// different files of the same name.
package disk
