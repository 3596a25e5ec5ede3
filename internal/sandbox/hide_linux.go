package sandbox

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/fault"
)

// mountedAt is a line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mountedAt struct {
	device, root, path, kind string
}

func mounts(r io.Reader) ([]mountedAt, error) {
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var out []mountedAt
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		f := strings.Fields(before)
		kind, _, _ := strings.Cut(after, " ")
		if len(f) >= 5 {
			out = append(out, mountedAt{device: f[2], root: plain.Replace(f[3]), path: plain.Replace(f[4]), kind: kind})
		}
	}
	return out, lines.Err()
}

// Places returns all paths by which folders and files can be reached: their own, those by other
// mounts of the same file system, and every other mount of /proc, which exposes the roots of all
// processes.
func Places(folders []string) ([]string, error) {
	if len(folders) == 0 {
		return nil, nil
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, failed(err)
	}
	defer f.Close()
	all, err := mounts(f)
	if err != nil {
		return nil, failed(err)
	}
	var out []string
	for _, folder := range folders {
		real, err := filepath.EvalSymlinks(folder)
		if err != nil {
			return nil, fault.New(fault.Unavailable, "sandbox_failed", "cannot find the files to hide: %w", err).WithHint("make sure that %s exists", folder)
		}
		out = append(out, aliases(all, real)...)
	}
	for _, m := range all {
		if m.kind == "proc" && m.path != "/proc" && !below(m.path, "/proc") {
			out = append(out, m.path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// aliases returns the paths of a folder through all mounts, its own first.
func aliases(all []mountedAt, folder string) []string {
	out := []string{folder}
	var in mountedAt // the mount that contains the folder: the last of the deepest
	for _, m := range all {
		if below(folder, m.path) && len(m.path) >= len(in.path) {
			in = m
		}
	}
	inFile := filepath.Join(in.root, strings.TrimPrefix(folder, in.path)) // path of the folder in its file system
	for _, m := range all {
		switch {
		case m.device != in.device || m.path == in.path:
		case below(inFile, m.root):
			out = append(out, filepath.Join(m.path, strings.TrimPrefix(inFile, strings.TrimSuffix(m.root, "/"))))
		case below(m.root, inFile): // a part of the folder is mounted elsewhere
			out = append(out, m.path)
		}
	}
	return slices.DeleteFunc(out, func(p string) bool {
		_, err := os.Stat(p)
		return p != folder && err != nil // covered by yet another mount
	})
}
