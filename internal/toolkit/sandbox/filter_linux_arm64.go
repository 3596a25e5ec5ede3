package sandbox

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

const auditArch = unix.AUDIT_ARCH_AARCH64

// foreign has nothing to do: 32-bit calls come with another architecture.
func foreign() []bpf.Instruction { return nil }

// deniedHere are the calls beside denied that only this machine has.
func deniedHere() []uint32 { return []uint32{unix.SYS_KEXEC_FILE_LOAD} }
