package api_test

import (
	"slices"
	"strings"
	"testing"

	"steward/client"
)

func TestJobsOverTheAPI(t *testing.T) {
	w := newTown(t)
	w.want("ana", "GET", "/jobs", "", 200, `{"jobs":[]}`)
	const mail = `{"text":"Tell me what is in my mail","every":"weekday","at":"7:00","zone":"Europe/Vienna","max_cost":0.1,"tools":{"mail.send":"deny"},"quiet":"22:00-7:00","check":{"tool":"mail.list"}}`
	seen := get[client.Job](w, "POST", "/jobs/preview", mail)
	if seen.Name != "tell-me-what-is-in-my-mail" || seen.When != "every weekday at 7:00" || len(seen.Next) != 3 || seen.State != "active" {
		t.Errorf("%+v", seen)
	}
	w.want("ana", "GET", "/jobs", "", 200, `{"jobs":[]}`)
	w.want("ana", "POST", "/jobs", mail, 201, `"note":"keep it running"`)
	j := get[client.Job](w, "GET", "/jobs/tell-me-what-is-in-my-mail", "")
	if j.When != seen.When || !slices.Equal(j.Next, seen.Next) && !j.Next[0].Equal(seen.Next[0]) || j.MaxCost != 0.1 || j.Tools["mail.send"] != "deny" || j.Quiet != "22:00-07:00" ||
		j.Check == nil || j.Check.Tool != "mail.list" || j.Conversation == "" || len(j.Labels) != 0 || j.Creator != "user" {
		t.Errorf("%+v", j)
	}
	w.want("ana", "POST", "/jobs", mail, 201, `"name":"tell-me-what-is-in-my-mail-2"`)
	w.want("ana", "POST", "/jobs", `{"text":"x","every":"day","name":"mail"}`, 201, `"name":"mail"`)
	w.want("ana", "POST", "/jobs/mail/pause", "", 200, `"state":"paused"`)
	w.want("ana", "POST", "/jobs/mail/resume", "", 200, `"next":["`)
	w.want("ana", "POST", "/jobs/mail/run", "", 200, `"cause":"person"`)
	w.want("ana", "POST", "/jobs/mail/run", "", 409, "job_busy")
	w.want("ana", "GET", "/jobs/mail/history?limit=5", "", 200, `"state":"due"`)

	for body, code := range map[string]string{`{"text":"x"}`: "trigger_invalid", `{"text":"x","every":"day","cron":"@daily"}`: "trigger_invalid", `{"text":"x","cron":"* *"}`: "cron_invalid",
		`{"text":"x","once":"2020-01-01T00:00"}`: "time_past", `{"text":"x","every":"day","zone":"Mars"}`: "zone_unknown", `{"every":"day"}`: "job_invalid",
		`{"text":"x","every":"day","missed":"never"}`: "job_invalid", `{"text":"x","every":"day","deliver":{"conversation_id":"x"}}`: "conversation_invalid"} {
		w.want("ana", "POST", "/jobs", body, 400, code)
	}
	w.want("ana", "POST", "/jobs", `{"text":"x","every":"day","name":"mail"}`, 409, "name_taken")
	w.want("ana", "POST", "/jobs/preview", `{"text":"x","once":"2020-01-01T00:00"}`, 400, "job_never")

	// Jobs of others do not exist.
	w.want("eve", "GET", "/jobs", "", 200, `{"jobs":[]}`)
	for _, r := range []string{"GET ", "DELETE ", "POST /run", "POST /pause", "POST /resume", "GET /history"} {
		method, path, _ := strings.Cut(r, " ")
		w.want("eve", method, "/jobs/mail"+path, "", 404, "not_found")
	}
	w.want("ana", "DELETE", "/jobs/mail", "", 204, "")
	w.want("ana", "GET", "/jobs/mail", "", 404, "not_found")

	// A program cannot use the API to rid a job of its labels.
	w.service = true
	w.want("ana", "POST", "/jobs", mail, 403, "job_person")
	w.want("ana", "POST", "/jobs/tell-me-what-is-in-my-mail/run", "", 403, "job_person")
	w.want("ana", "DELETE", "/jobs/tell-me-what-is-in-my-mail", "", 403, "job_person")
	w.want("ana", "GET", "/jobs/tell-me-what-is-in-my-mail", "", 200, "7:00")
}
