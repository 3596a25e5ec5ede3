//go:build long

package jobs

import "testing"

func TestAYearOfAThousandJobs(t *testing.T) { simulate(t, 3, 1000, 366, false) }
