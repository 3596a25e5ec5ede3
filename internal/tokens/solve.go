package tokens

import "math"

// solveBounded returns the x within the bounds of the ratios and the overhead
// that minimizes xᵀ·m·x/2 − xᵀ·b, for a positive definite m and its inverse. If
// the solution without bounds is not within them, it is found by coordinate
// descent: one coordinate after the other is set to its best value, which
// converges to the one minimum. Ratios are deviations from 1.
func solveBounded(m, inverse *matrix, b *vector) (x vector) {
	const rounds, enough = 100, 1e-5
	within := true
	for i := range dims {
		for j := range dims {
			x[i] += inverse[i][j] * b[j]
		}
		low, high := bounds(i)
		within = within && low <= x[i] && x[i] <= high
	}
	if within {
		return x
	}
	seen := make([]int, 0, dims) // the others have nothing to do with each other
	for i := range dims {
		if b[i] != 0 {
			seen = append(seen, i)
		}
		low, high := bounds(i)
		x[i] = min(max(x[i], low), high)
	}
	for range rounds {
		moved := 0.0
		for _, i := range seen {
			best := b[i]
			for _, j := range seen {
				if j != i {
					best -= m[i][j] * x[j]
				}
			}
			low, high := bounds(i)
			best = min(max(best/m[i][i], low), high)
			moved = max(moved, math.Abs(best-x[i]))
			x[i] = best
		}
		if moved < enough {
			break
		}
	}
	return x
}

func bounds(i int) (low, high float64) {
	if i == overhead {
		return 0, mostOverhead
	}
	return leastRatio - 1, mostRatio - 1
}

// mirror copies the lower triangle to the upper one.
func (m *matrix) mirror() {
	for i := range dims {
		for j := range i {
			m[j][i] = m[i][j]
		}
	}
}

// invert returns the inverse of a positive definite matrix (Gauss-Jordan,
// which needs no pivoting for such a one).
func invert(m *matrix) (inverse matrix) {
	a := *m
	for i := range dims {
		inverse[i][i] = 1
	}
	for i := range dims {
		p := a[i][i]
		for j := range dims {
			a[i][j] /= p
			inverse[i][j] /= p
		}
		for k := range dims {
			if k == i || a[k][i] == 0 {
				continue
			}
			f := a[k][i]
			for j := range dims {
				a[k][j] -= f * a[i][j]
				inverse[k][j] -= f * inverse[i][j]
			}
		}
	}
	return inverse
}
