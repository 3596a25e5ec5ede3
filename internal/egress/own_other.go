//go:build !linux

package egress

import "errors"

// ownPort cannot determine this here, so this machine's own addresses are not dialled.
func ownPort(uint16) error {
	return errors.New("Steward's own ports can be determined on Linux only")
}
