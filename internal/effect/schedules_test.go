//go:build !race

package effect

// schedules is how many TestSchedules goes through.
const schedules = 10_000
