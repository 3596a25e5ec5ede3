package backup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
)

// nameTime is the form of the time in the name of a backup.
const nameTime = "20060102T150405Z"

// Entry is a backup in a folder, as its name tells.
type Entry struct {
	Path      string    `json:"path"`
	Made      time.Time `json:"made"`
	Kind      Kind      `json:"kind,omitzero"`
	Encrypted bool      `json:"encrypted,omitzero"`
	Bytes     int64     `json:"bytes,omitzero"`
}

// List returns the complete backups in a folder, newest first. A folder that does not exist has none.
func List(folder string) ([]Entry, error) {
	names := regexp.MustCompile(`^steward-(\d{8}T\d{6}Z)(?:\.\d+)?(?:-(job|upgrade))?(\.tar\.age)?$`)
	list, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "backups_unreadable", "the backups in %s cannot be read: %w", folder, err).WithHint("check the folder")
	}
	var all []Entry
	for _, e := range list {
		part := names.FindStringSubmatch(e.Name())
		if part == nil {
			continue
		}
		at, err := time.Parse(nameTime, part[1])
		if err != nil {
			continue
		}
		x := Entry{Path: filepath.Join(folder, e.Name()), Made: at, Kind: Kind(part[2]), Encrypted: part[3] != ""}
		if info, err := e.Info(); err == nil && x.Encrypted {
			x.Bytes = info.Size()
		} else if m, err := readManifest(x.Path); err == nil {
			x.Bytes = m.Bytes
		} else {
			continue // it is not a backup, or not complete
		}
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Or(b.Made.Compare(a.Made), strings.Compare(b.Path, a.Path)) })
	return all, nil
}

// Retention says how many backups are kept: the newest ones, and the newest of each of the last days, weeks and
// months that have one. A backup that one of the rules keeps is kept.
type Retention struct {
	Last, Daily, Weekly, Monthly int
}

// Outdated returns the backups that no rule keeps, of a list that is sorted newest first. The newest one is always
// kept.
func (r Retention) Outdated(list []Entry, zone *time.Location) (old []Entry) {
	kept := make([]bool, len(list))
	for i := range list {
		kept[i] = i < max(r.Last, 1)
	}
	for _, rule := range []struct {
		most   int
		period func(time.Time) string
	}{
		{r.Daily, func(t time.Time) string { return t.Format(time.DateOnly) }},
		{r.Weekly, func(t time.Time) string { y, w := t.ISOWeek(); return fmt.Sprintf("%d-%02d", y, w) }},
		{r.Monthly, func(t time.Time) string { return t.Format("2006-01") }},
	} {
		last, n := "", 0
		for i, e := range list {
			p := rule.period(e.Made.In(zone))
			if p == last || n >= rule.most {
				continue
			}
			kept[i], last, n = true, p, n+1
		}
	}
	for i, e := range list {
		if !kept[i] {
			old = append(old, e)
		}
	}
	return old
}

// Prune removes the backups of one kind in a folder that no rule keeps. Errors: backup_running, backup_failed.
func Prune(folder string, kind Kind, r Retention, zone *time.Location, step func(what, path string) error) (removed []Entry, err error) {
	if !there(folder) {
		return nil, nil
	}
	release, err := hold(folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = failed(folder, errors.Join(err, release())) }()
	list, err := List(folder)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(e Entry) bool { return e.Kind != kind })
	for _, e := range r.Outdated(list, zone) {
		if err := remove(e.Path, step); err != nil {
			return removed, err
		}
		removed = append(removed, e)
	}
	return removed, nil
}

// remove removes a backup. It is not a backup any more as soon as that has begun.
func remove(path string, step steps) error {
	aside := hidden(filepath.Dir(path), filepath.Base(path))
	if err := step.at("remove", path); err != nil {
		return err
	}
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	return os.RemoveAll(aside)
}
