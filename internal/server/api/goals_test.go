package api_test

import (
	"slices"
	"testing"

	"steward/client"
)

func TestGoalsOverTheAPI(t *testing.T) {
	w := newTown(t)
	w.want("ana", "GET", "/goals", "", 200, `{"goals":[]}`)
	w.want("ana", "GET", "/projects", "", 200, `{"projects":[]}`)
	w.want("ana", "POST", "/goals", `{"title":"Learn Italian","success_criteria":["Read a novel"],"importance":0.8}`, 201, `"title":"Learn Italian"`)
	w.want("ana", "POST", "/projects", `{"title":"Course","goal_id":"italian","next_actions":["Book"],"milestones":[{"title":"A2","due":"2020-01-31"}]}`, 201, `"goal":"Learn Italian"`)
	w.want("ana", "PATCH", "/projects/course", `{"progress":{"summary":"Unit 4","progress_percent":20},"reached":["A2"],"done":["1"]}`, 200,
		`"last_change":"milestone reached: A2; done: Book; progress 20 %: Unit 4"`)
	g := get[client.Effort](w, "GET", "/goals/italian", "")
	if g.Progress != 0.2 || len(g.Projects) != 1 || g.Related[0] != g.Projects[0].ID || len(g.Labels) != 0 || g.URI != "cld:goals.Goal."+g.ID {
		t.Errorf("%+v", g)
	}
	w.want("ana", "GET", "/projects/"+g.Related[0][:8], "", 200, `"progress_percent":20`)
	w.want("ana", "GET", "/goals?status=dropped", "", 200, `{"goals":[]}`)
	w.want("ana", "GET", "/goals/changes?days=2", "", 200, `"news":true`)
	w.want("ana", "GET", "/resources/item?uri="+g.URI, "", 200, `Learn Italian`)

	for body, code := range map[string]string{`{}`: "effort_invalid", `{"title":"x","due":"soon"}`: "time_invalid", `{"title":"x","importance":2}`: "effort_invalid",
		`{"title":"x","colour":"red"}`: "unknown_member", `{"title":"x","status":"open"}`: "status_invalid"} {
		w.want("ana", "POST", "/goals", body, 400, code)
	}
	w.want("ana", "POST", "/goals", `{"title":"learn italian"}`, 409, "goal_exists")
	w.want("ana", "POST", "/goals", `{"title":"x","tasks":["cld:plan.Task.x"]}`, 404, "task_not_found")

	// What belongs to others does not exist.
	for _, r := range [][2]string{{"GET", ""}, {"PATCH", `{"status":"dropped"}`}, {"DELETE", ""}} {
		w.want("eve", r[0], "/goals/"+g.ID, r[1], 404, "goal_not_found")
	}
	w.want("eve", "GET", "/goals/changes", "", 200, `"news":false`)

	// What a program stores counts as text of others.
	w.service = true
	w.want("ana", "PATCH", "/goals/italian", `{"progress":{"summary":"a program was here"}}`, 200, `"labels":["private","untrusted"]`)
	w.service = false
	if g := get[client.Effort](w, "GET", "/goals/italian", ""); !slices.Contains(g.Labels, "untrusted") {
		t.Errorf("%+v", g)
	}
	w.want("ana", "DELETE", "/goals/italian", "", 204, "")
	w.want("ana", "GET", "/goals/italian", "", 404, "goal_not_found")
}
