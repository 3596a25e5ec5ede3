//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Return values of a filter (linux/seccomp.h).
const (
	retAllow = 0x7fff0000
	retKill  = 0x80000000 // the process
	retErrno = 0x00050000
)

// Offsets of a filter's input (struct seccomp_data). Both architectures are little-endian, so the
// low half of an argument comes first.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// newNamespaces are the flags of clone that create namespaces.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// denied are the system calls that a confined program may not make on any machine: those that
// inspect or change other processes, the kernel, its keys, clocks and mounts; new interfaces with
// a record of vulnerabilities; and memory that no limit counts.
func denied() []uint32 {
	return []uint32{
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
		unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
		unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_REBOOT, unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_VHANGUP, unix.SYS_NFSSERVCTL,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT,
		unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE,
		unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
		unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_MEMFD_SECRET,
	}
}

// unknownCalls are denied as if the kernel did not know them, so that programs fall back to another
// call. clone3 hides its flags from a filter.
func unknownCalls() []uint32 {
	return []uint32{
		unix.SYS_CLONE3, unix.SYS_MEMFD_CREATE, unix.SYS_USERFAULTFD,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	}
}

// filter returns the seccomp program for a confined program, in the kernel's format. loopback
// allows sockets for the program's own loopback network.
func filter(loopback bool) ([]byte, error) {
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: retKill},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
	}
	p = append(p, foreign()...)
	for _, nr := range append(denied(), deniedHere()...) {
		p = append(p, forCall(nr, bpf.RetConstant{Val: errno(unix.EPERM)})...)
	}
	for _, nr := range unknownCalls() {
		p = append(p, forCall(nr, bpf.RetConstant{Val: errno(unix.ENOSYS)})...)
	}
	p = append(p, forCall(unix.SYS_CLONE, argument(0),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: newNamespaces, SkipFalse: 1},
		bpf.RetConstant{Val: errno(unix.EPERM)}, bpf.RetConstant{Val: retAllow})...)
	p = append(p, forCall(unix.SYS_IOCTL, argument(1), // typing into a terminal
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.TIOCLINUX, SkipTrue: 1},
		bpf.RetConstant{Val: errno(unix.EPERM)}, bpf.RetConstant{Val: retAllow})...)
	p = append(p, forCall(unix.SYS_PERSONALITY, argument(0), // only to query it, or to set the default
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0xffffffff, SkipTrue: 1},
		bpf.RetConstant{Val: errno(unix.EPERM)}, bpf.RetConstant{Val: retAllow})...)
	p = append(p, forCall(unix.SYS_SOCKET, sockets(loopback)...)...)
	raw, err := bpf.Assemble(append(p, bpf.RetConstant{Val: retAllow}))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, i := range raw {
		if err := binary.Write(&out, binary.LittleEndian, i); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// sockets checks the address family of a new socket.
func sockets(loopback bool) []bpf.Instruction {
	p := []bpf.Instruction{argument(0)}
	allow := func(family uint32) {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: family, SkipFalse: 1}, bpf.RetConstant{Val: retAllow})
	}
	allow(unix.AF_UNIX)
	if loopback {
		allow(unix.AF_INET)
		allow(unix.AF_INET6)
	}
	return append(p,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_NETLINK, SkipTrue: 3}, // to list the interface addresses
		argument(2),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.NETLINK_ROUTE, SkipTrue: 1},
		bpf.RetConstant{Val: retAllow},
		bpf.RetConstant{Val: errno(unix.EAFNOSUPPORT)})
}

// forCall runs body, which must end in a verdict, for one system call. The system call number is
// loaded before and after.
func forCall(nr uint32, body ...bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: nr, SkipTrue: uint8(len(body))}}, body...)
}

func argument(n uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offArgs + 8*n, Size: 4} }

func errno(e unix.Errno) uint32 { return retErrno | uint32(e) }
