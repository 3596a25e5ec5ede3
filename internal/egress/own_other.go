//go:build !linux

package egress

import "errors"

// ownPort cannot determine this here, so this machine's own addresses are not dialled.
func ownPort(uint16) error {
	return errors.New("which ports are Steward's own can be told on Linux only")
}
