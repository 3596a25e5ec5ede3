//go:build race

package effect

// schedules is how many TestSchedules goes through under the race detector;
// scripts/test goes through all of them without it.
const schedules = 1000
