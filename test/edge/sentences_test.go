package edge_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/test/edge"
)

// TestEverydaySentencesWithoutAModel: a person with nothing, neither a key nor a network, is understood in the
// sentences that people say, in English and German, from the first one on. What is not understood is said in
// two lines.
func TestEverydaySentencesWithoutAModel(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, map[string]string{"/places": seattle, "/forecast": drizzles, //nolint:errcheck // the caller may be gone
			"/search": `{"results":[{"title":"A hut","url":"https://hut.example","content":"Beds above the clouds"}]}`}[r.URL.Path])
	}))
	t.Cleanup(service.Close)
	n := edge.New(t, edge.Options{Env: []string{"STEWARD_APPROVE=unfixed"}}) // the words of the person fix each action
	n.Env = append(n.Env, "STEWARD_CONFIG="+n.Write(fmt.Sprintf("profile: {location: Seattle}\nweather: {url: %q, places_url: %q}\nweb: {search: {engine: searxng, url: %q}}\n",
		service.URL+"/forecast", service.URL+"/places", service.URL), "own.yaml"))
	n.Serve()
	for _, c := range []struct {
		say  string
		want []string
	}{
		{"help", []string{"- Remind me to call mum in 20 minutes"}},
		{"thanks!", []string{"You are welcome."}},
		{"Remind me to call mum in 20 minutes", []string{"The reminder is set for"}},
		{"What reminders do I have?", []string{`"call mum"`}},
		{"Cancel the reminder about mum", []string{`"call mum" was cancelled`}},
		{"Erinnere mich in 20 Minuten daran, Papa anzurufen", []string{"The reminder is set for"}},
		{"Set a timer for 10 minutes", []string{"The timer is set for"}},
		{"Stell einen Timer auf 5 Minuten", []string{"The timer is set for"}},
		{"Add buy milk to my to-do list", []string{`Added the task "buy milk".`}},
		{"What is on my to-do list?", []string{"1. buy milk"}},
		{"Mark buy milk as done", []string{`Completed the task "buy milk".`}},
		{"Add eggs to the shopping list", []string{`Added the task "eggs" to shopping.`}},
		{"What's on my shopping list?", []string{"eggs in shopping"}},
		{"Setz Brot auf die Einkaufsliste", []string{`Added the task "Brot"`}},
		{"Was steht auf der Einkaufsliste?", []string{"Brot"}},
		{"Add dentist to my calendar tomorrow at 10:30", []string{`Added "dentist"`, "10:30"}},
		{"What is on my calendar tomorrow?", []string{`"dentist"`}},
		{"Am I free tomorrow at 15:00?", []string{"Free on", "15:00–16:00"}},
		{"What's the weather in Seattle?", []string{"drizzle"}},
		{"Regnet es heute in Seattle?", []string{"drizzle"}},
		{"What time is it in Tokyo?", []string{"In Tokyo it is"}},
		{"What is 12 percent of 80?", []string{"9.6"}},
		{"Wie viel ist 12 mal 12?", []string{"144"}},
		{`Write "call the plumber" to notes.txt`, []string{"workspace/notes.txt"}},
		{"Read notes.txt", []string{"call the plumber"}},
		{"Note down that the key is at Anna's", []string{"Notes.md"}},
		{"Search my notes for key", []string{"the key is at Anna's"}},
		{"Search the web for mountain huts", []string{"A hut"}},
		{"What is 6 times 7 and then set a timer for 10 minutes", []string{"42", "The timer is set for"}},
		{"Plan a weekend mountain trip - check weather, find lodging, add to calendar", []string{"drizzle", "A hut", `Added "weekend mountain trip"`}},
	} {
		if r := n.Run("ask", "-q", c.say); r.Code != 0 || !inOrder(r.Out, c.want) {
			t.Errorf("%s: %d %s%s", c.say, r.Code, r.Out, r.Err)
		}
	}
	out := strings.TrimSpace(n.Must("ask", "-q", "Set a timer for 5 minutes and sing me a song"))
	if lines := strings.Split(out, "\n"); len(lines) != 2 || !strings.Contains(lines[0], `"sing me a song"`) || strings.Count(lines[1], "“") != 3 {
		t.Errorf("a refusal is %s", out)
	}
	if out := n.Must("ask", "-q", "--agent", "planner", "Plan a weekend mountain trip - check weather, find lodging, add to calendar"); !inOrder(out, []string{"drizzle", "A hut", "weekend mountain trip"}) {
		t.Errorf("the plan: %s", out)
	}
}
