package wire

import "io"

// pieces is an io.Reader of several byte slices, one after the other. It copies none of them and
// keeps its own position, so that a request can be sent again.
type pieces struct {
	rest [][]byte // never written to
	off  int      // in rest[0]
}

func (p *pieces) Read(b []byte) (n int, err error) {
	for n < len(b) && len(p.rest) > 0 {
		m := copy(b[n:], p.rest[0][p.off:])
		n += m
		p.off += m
		if p.off == len(p.rest[0]) {
			p.rest, p.off = p.rest[1:], 0
		}
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (p *pieces) Close() error { return nil }

// Size returns the total size of a body's parts, in bytes.
func Size(parts [][]byte) int {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	return n
}
