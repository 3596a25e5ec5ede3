package main

import (
	"os"
	"path/filepath"

	"golang.org/x/term"
)

// path makes a path that a person named absolute, from the app's folder.
func (a *app) path(p string) string {
	if filepath.IsAbs(p) || a.dir == "" {
		return p
	}
	return filepath.Join(a.dir, p)
}

// database is the database file of a data folder.
func database(data string) string { return filepath.Join(data, "steward.db") }

func terminalFile(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
