package egress

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"steward/internal/fault"
)

// ownPort returns an error if this process listens on a port, so that Steward's listeners need
// not be declared here. If this cannot be determined, it returns an error.
func ownPort(port uint16) error {
	own := map[string]bool{} // sockets by inode
	dir, err := os.ReadDir("/proc/self/fd")
	for _, e := range dir {
		to, lerr := os.Readlink("/proc/self/fd/" + e.Name())
		if inode, ok := strings.CutPrefix(to, "socket:["); lerr == nil && ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		b, terr := os.ReadFile(table)
		if errors.Is(terr, os.ErrNotExist) {
			continue // no IPv6
		}
		err = errors.Join(err, terr)
		for line := range bytes.Lines(b) {
			f := strings.Fields(string(line))
			const listens = "0A"
			if len(f) < 10 || f[3] != listens || !own[f[9]] {
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			if n, perr := strconv.ParseUint(hex, 16, 16); perr == nil && uint16(n) == port {
				return fault.New(fault.Denied, "network_denied", "port %d is Steward's own", port)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("cannot determine which ports are Steward's own: %w", err)
	}
	return nil
}
