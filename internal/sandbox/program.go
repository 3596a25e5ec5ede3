package sandbox

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"steward/internal/fault"
)

// systemPath is the PATH of a confined program.
const systemPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

// find returns the absolute path of a program: as given, or looked up in the folders of the first
// list that has it. Error codes: program_not_found, program_not_executable.
func find(name string, lists ...string) (string, error) {
	if filepath.IsAbs(name) {
		return name, runnable(name)
	}
	if name == "" || strings.ContainsRune(name, filepath.Separator) {
		return "", fault.New(fault.Invalid, "program_not_found", "%q is not an absolute path or the name of a program", name).
			WithHint("give the absolute path of the program, or a name found in PATH")
	}
	var unfit error
	for _, list := range lists {
		for _, dir := range filepath.SplitList(list) {
			if !filepath.IsAbs(dir) {
				continue // relative folders in PATH are ignored
			}
			path := filepath.Join(dir, name)
			err := runnable(path)
			if err == nil {
				return path, nil
			}
			if !fault.HasCode(err, "program_not_found") {
				unfit = err
			}
		}
	}
	if unfit != nil {
		return "", unfit
	}
	return "", fault.New(fault.NotFound, "program_not_found", "there is no program %s in %s", name, strings.Join(lists, ":")).
		WithHint("install it, or give its absolute path")
}

// runnable returns an error if a file cannot be run.
func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "program_not_found", "there is no program %s", path).
			WithHint("install it, or correct the path")
	case err != nil:
		return fault.New(fault.NotFound, "program_not_found", "cannot read the program %s: %w", path, err)
	case info.IsDir():
		return notRunnable(path, "it is a folder")
	case !info.Mode().IsRegular():
		return notRunnable(path, "it is not a file")
	case runtime.GOOS != "windows" && info.Mode()&0o111 == 0:
		return fault.New(fault.Invalid, "program_not_executable", "%s cannot be run: it is not marked as executable", path).
			WithHint("run chmod +x %s", path)
	}
	if runtime.GOOS != "linux" {
		return nil
	}
	return format(path)
}

func notRunnable(path, why string) error {
	return fault.New(fault.Invalid, "program_not_executable", "%s cannot be run: %s", path, why).
		WithHint("name a program, or a script that begins with #! and its interpreter")
}

// format checks whether the kernel can execute a file: a shell in between would take anything
// else for a shell script.
func format(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil // a program may be executable without being readable
	}
	if err != nil {
		return fault.New(fault.NotFound, "program_not_found", "the program %s cannot be opened: %w", path, err)
	}
	defer f.Close()
	var head [20]byte
	n, _ := f.ReadAt(head[:], 0) // n is smaller for a short file
	switch {
	case n > 2 && head[0] == '#' && head[1] == '!':
		return nil
	case n < len(head) || string(head[:4]) != elf.ELFMAG:
		return notRunnable(path, "it is not a program or a script that begins with #!")
	}
	of := elf.Machine(uint16(head[18]) | uint16(head[19])<<8)
	if want, known := machines()[runtime.GOARCH]; known && of != want {
		return notRunnable(path, "it was built for another machine ("+of.String()+")")
	}
	return nil
}

func machines() map[string]elf.Machine {
	return map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
}
