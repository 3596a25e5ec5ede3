package activity

import (
	"strings"
	"testing"

	"steward/client"
)

// TestThePlanOfARecord: an outcome has its error code in brackets, and none without a code.
func TestThePlanOfARecord(t *testing.T) {
	p := client.Plan{Outcome: "failed", Error: "task_fell_short", Tasks: []client.PlanTask{
		{Name: "find_lodging", State: "failed", Error: "task_failed"}, {Name: "check_the_weather", State: "done"}}}
	got := strings.Join(strings.Fields(planText(&p, 120)), " ")
	for _, part := range []string{"outcome failed (task_fell_short) took", "find_lodging failed (task_failed) designed", "check_the_weather done designed"} {
		if !strings.Contains(got, part) {
			t.Errorf("lacks %q: %s", part, got)
		}
	}
}
