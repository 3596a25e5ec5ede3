package sandbox

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const auditArch = unix.AUDIT_ARCH_AARCH64

// foreign does nothing here: 32-bit calls are reported with another architecture.
func foreign() []bpf.Instruction { return nil }

// deniedHere are the denied calls that only this architecture has.
func deniedHere() []uint32 { return []uint32{unix.SYS_KEXEC_FILE_LOAD} }
