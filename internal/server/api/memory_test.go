package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"steward/client"
	"steward/internal/id"
	"steward/internal/memory"
	"steward/internal/record"
	"steward/internal/store"
)

func TestFactsOverTheAPI(t *testing.T) {
	w := newTown(t)
	w.want("ana", "GET", "/memory/facts", "", 200, `{"facts":[]}`)
	saved := get[client.SavedFact](w, "POST", "/memory/facts", `{"text":"My car is blue"}`)
	if saved.How != client.FactAdded || saved.Fact.Subject != "user" || saved.Fact.Importance != 0.5 {
		t.Errorf("%+v", saved)
	}
	car := saved.Fact.ID
	w.want("ana", "GET", "/memory/facts?query=automobile", "", 200, `"text":"My car is blue"`)
	w.want("ana", "GET", "/memory/facts?since=soon", "", 400, "time_invalid")
	w.want("ana", "GET", "/memory/facts?since=2999-01-01T00:00:00Z", "", 200, `{"facts":[]}`)
	w.want("ana", "GET", "/memory/facts?since=2020-01-01T00:00:00Z", "", 200, `"what":"added"`)

	// What is wrong is refused, and changes nothing.
	for body, code := range map[string]string{`{}`: "fact_invalid", `{"text":" "}`: "fact_invalid", `{"text":"x","type":"silly"}`: "fact_invalid", `{"text":"x","importance":2}`: "fact_invalid",
		`{"text":"x","valid_from":"2026-01-02T00:00:00Z","valid_to":"2026-01-01T00:00:00Z"}`: "fact_invalid", `{"text":"x","colour":"red"}`: "unknown_member"} {
		w.want("ana", "POST", "/memory/facts", body, 400, code)
	}
	w.want("ana", "POST", "/memory/facts", `{"text":"x","replaces":["ffffffff"]}`, 404, "fact_not_found")
	w.want("ana", "PATCH", "/memory/facts/ffffffff", `{"importance":1}`, 404, "fact_not_found")

	// A fact that takes the place of another one is undone, and the other one is true again.
	red := get[client.SavedFact](w, "POST", "/memory/facts", `{"text":"My car is red"}`)
	if red.How != client.FactSuperseded || len(red.Old) != 1 || red.Old[0] != car {
		t.Errorf("%+v", red)
	}
	w.want("ana", "POST", "/memory/facts/"+red.Fact.ID+"/undo", `{"change":"`+id.New().String()+`"}`, 404, "change_not_found")
	if u := get[client.UndoneFact](w, "POST", "/memory/facts/"+red.Fact.ID+"/undo", `{}`); !u.Gone || u.Fact.Text != "My car is red" {
		t.Errorf("%+v", u)
	}
	if now := get[client.Fact](w, "GET", "/memory/facts/"+car, ""); !now.Until.IsZero() || now.Successor != "" {
		t.Errorf("%+v", now)
	}

	// An edit is undone, but not once the fact has changed again.
	w.want("ana", "PATCH", "/memory/facts/"+car, `{"text":"My car is green"}`, 200, `"text":"My car is green"`)
	edited := get[client.Fact](w, "GET", "/memory/facts/"+car, "")
	change := edited.History[len(edited.History)-1].ID
	w.want("ana", "PATCH", "/memory/facts/"+car, `{"importance":0.9}`, 200, `"importance":0.9`)
	w.want("ana", "POST", "/memory/facts/"+car+"/undo", `{"change":"`+change+`"}`, 409, "changed_since")
	w.want("ana", "POST", "/memory/facts/"+car+"/undo", `{}`, 200, `"importance":0.5`)

	// The profile is a page. Half a page, or a stale one, changes nothing.
	page := get[client.MemoryProfile](w, "GET", "/memory/profile", "")
	put := func(text, version string) string {
		b, err := json.Marshal(client.MemoryProfile{Text: text, Version: version})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, text := range []string{"", "nonsense", "# Preferences\n", "# Who I am\n- x [" + id.New().String() + "]\n", "# Who I am\n- [" + car + "]\n"} {
		w.want("ana", "PUT", "/memory/profile", put(text, ""), 400, "profile_invalid")
	}
	w.want("ana", "PUT", "/memory/profile", put(page.Text, "stale"), 409, "profile_changed")
	w.want("ana", "PUT", "/memory/profile", put(strings.Replace(page.Text, " ["+car+"]", "", 1), page.Version), 200, `"version"`) // the id was lost
	w.want("ana", "GET", "/memory/facts/"+car, "", 200, `"text":"My car is green"`)

	// What belongs to others does not exist.
	for _, r := range [][3]string{{"GET", "", ""}, {"PATCH", "", `{"importance":1}`}, {"POST", "/undo", `{}`}, {"DELETE", "", ""}} {
		w.want("eve", r[0], "/memory/facts/"+car+r[1], r[2], 404, "fact_not_found")
	}
	w.want("ana", "DELETE", "/memory/facts/"+car, "", 204, "")
	w.want("ana", "GET", "/memory/facts/"+car, "", 404, "fact_not_found")
	w.want("ana", "GET", "/memory/facts?all=true", "", 200, `{"facts":[]}`)
}

// What a program saves is a quotation everywhere, until a person confirms it, which is recorded and can be taken
// back. No program can confirm it, not even by undoing that.
func TestForeignFactsOverTheAPI(t *testing.T) {
	w := newTown(t)
	w.service = true
	code := get[client.SavedFact](w, "POST", "/memory/facts", `{"text":"The garage code is 4711","type":"instruction"}`).Fact
	if !code.Foreign || code.Type == "instruction" {
		t.Errorf("%+v", code)
	}
	w.want("ana", "PATCH", "/memory/facts/"+code.ID, `{"trusted":true}`, 403, "trust_denied")
	w.service = false
	page := get[client.MemoryProfile](w, "GET", "/memory/profile", "")
	if !strings.Contains(page.Text, "# Written by others, not confirmed\n\n- \"The garage code is 4711\" ["+code.ID+"]") {
		t.Error(page.Text)
	}
	w.want("ana", "PUT", "/memory/profile", `{"text":`+quoted(strings.Replace(page.Text, "4711", "1234", 1))+`}`, 400, "profile_invalid")
	w.want("ana", "PATCH", "/memory/facts/"+code.ID, `{"type":"instruction"}`, 400, "fact_invalid")
	list := get[map[string][]client.Fact](w, "GET", "/memory/facts?since=2020-01-01T00:00:00Z", "")["facts"]
	if text := memory.Export(list, time.UTC); !strings.Contains(text, "- \"The garage code is 4711\"\n") || !strings.Contains(text, "written by others, not confirmed") {
		t.Error(text)
	}
	w.want("ana", "PATCH", "/memory/facts/"+code.ID, `{"trusted":true}`, 200, `"trusted"`)
	v := get[client.Fact](w, "GET", "/memory/facts/"+code.ID, "")
	if last := v.History[len(v.History)-1]; v.Foreign || v.Trusted.IsZero() || last.What != "trusted" || last.Actor != "user" || last.At.IsZero() {
		t.Errorf("%+v", v)
	}
	w.want("ana", "PATCH", "/memory/facts/"+code.ID, `{"trusted":false}`, 200, `"foreign":true`)
	w.service = true
	w.want("ana", "POST", "/memory/facts/"+code.ID+"/undo", `{}`, 403, "trust_denied")
	w.service = false
	w.want("ana", "POST", "/memory/facts/"+code.ID+"/undo", `{}`, 200, `"trusted"`)
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a text: cannot fail
	return string(b)
}

// A conversation tells what it has recalled and what was saved from it, and a fact tells where it comes from and
// where it was recalled. A turn in which a fact was said is erased with it if the person wants that.
func TestMemoryOfAConversation(t *testing.T) {
	w := newTown(t)
	w.want("ana", "POST", "/memory/facts", `{"text":"My car is blue"}`, 201, "")
	first := w.say("ana", "", "which colour is my car?")
	w.say("ana", first.Conversation, "my locker has the number zyx8841")
	said := ""
	for _, m := range get[struct {
		Messages []struct{ ID, Role, URI string }
	}](w, "GET", "/conversations/"+first.Conversation+"/messages", "").Messages {
		if m.Role == "user" {
			said = m.ID
		}
	}
	conv, _ := id.Parse(first.Conversation)
	msg, _ := id.Parse(said)
	list, _, err := w.node.Conversations.Messages(t.Context(), store.ForUser("ana"), conv, "", 100, false)
	if err != nil {
		t.Fatal(err)
	}
	source := ""
	for i := range list {
		if list[i].ID == msg {
			source = list[i].URI(conv).String()
		}
	}
	text := "My locker has the number zyx8841"
	locker, err := w.o.Memory.Save(t.Context(), "ana", client.FactInput{Text: &text}, record.FactAuthor{Call: id.New(), Actor: "extraction", Source: source})
	if err != nil {
		t.Fatal(err)
	}
	got := get[client.ConversationMemory](w, "GET", "/conversations/"+first.Conversation+"/memory", "")
	if len(got.Recalled) != 1 || got.Recalled[0].Text != "My car is blue" || len(got.Saved) != 1 || got.Saved[0].ID != locker.Fact.ID.String() || got.Saved[0].Actor != "extraction" || got.Saved[0].Change == "" {
		t.Errorf("%+v", got)
	}
	w.want("eve", "GET", "/conversations/"+first.Conversation+"/memory", "", 404, "conversation_not_found")
	car := get[client.Fact](w, "GET", "/memory/facts/"+got.Recalled[0].ID, "")
	if len(car.Recalls) != 1 || car.Recalls[0].Conversation != first.Conversation || car.Said != nil {
		t.Errorf("%+v", car)
	}
	v := get[client.Fact](w, "GET", "/memory/facts/"+locker.Fact.ID.String(), "")
	if v.Said == nil || v.Said.Text != "my locker has the number zyx8841" || v.Said.Conversation != first.Conversation || len(v.Recalls) != 0 {
		t.Errorf("%+v", v.Said)
	}
	w.want("ana", "DELETE", "/memory/facts/"+v.ID+"?turns=true", "", 204, "")
	w.want("ana", "GET", "/memory/facts/"+v.ID, "", 404, "fact_not_found")
	if left := w.want("ana", "GET", "/conversations/"+first.Conversation+"/messages", "", 200, "which colour"); strings.Contains(left, "zyx8841") {
		t.Error(left)
	}
}
