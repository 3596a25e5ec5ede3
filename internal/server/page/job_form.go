package page

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"steward/client"
	"steward/internal/fault"
)

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// jobAsk asks for a new job.
func (v *visit) jobAsk(json.RawMessage) (*reply, error) {
	return v.dialog(v.t("New job"), v.jobForm(&client.Job{}, false)), nil
}

// jobEditAsk asks for changes of a job.
func (v *visit) jobEditAsk(in json.RawMessage) (*reply, error) {
	x, err := read[jobName](in)
	if err != nil {
		return nil, err
	}
	j, err := v.api().Job(v.ctx(), x.Name)
	if err != nil {
		return nil, err
	}
	return v.dialog(v.t("Edit"), v.jobForm(&j, true)), nil
}

func (v *visit) missedWords(s string) string {
	return map[string]string{"once": v.t("run once for all that was missed"), "all": v.t("run for each that was missed"), "skip": v.t("run for none that was missed")}[s]
}

func (v *visit) overlapWords(s string) string {
	return map[string]string{"skip": v.t("it does not run"), "queue": v.t("it waits")}[s]
}

// choice is an option of a select.
func choice(value, label, now string) g.Node {
	return Option(Value(value), g.If(value == now, Selected()), g.Text(label))
}

// text is a field of one line.
func field(label, name, value, hint string, more ...g.Node) g.Node {
	return Label(g.Text(label), Input(Name(name), g.If(value != "", Value(value)), g.If(hint != "", Placeholder(hint)), MaxLength("500"), g.Group(more)))
}

// jobForm is the form for a job. What it begins on is asked for in words; everything else is folded.
func (v *visit) jobForm(j *client.Job, edit bool) g.Node {
	plain := j.On == nil && j.Mail == nil && j.Path == "" && j.File == "" && j.Home == "" // it begins at a time
	words, name := "", ""
	if edit {
		name = j.Name
		if plain {
			words = j.When
		}
	}
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	cost := ""
	if j.MaxCost > 0 {
		cost = strconv.FormatFloat(j.MaxCost, 'f', -1, 64)
	}
	on, mail, check := client.JobEvents{}, client.JobMail{}, client.JobCheck{}
	if j.On != nil {
		on = *j.On
	}
	if j.Mail != nil {
		mail = *j.Mail
	}
	if j.Check != nil {
		check = *j.Check
	}
	return Form(Data("do", "job-preview"), hiddenFields("edit", name, "before", words),
		Label(g.Text(v.t("What should be done?")), Textarea(Name("text"), Rows("3"), Required(), MaxLength("4000"), AutoFocus(), Placeholder(v.t("Tell me what is new in my mail")), g.Text(j.Text))),
		field(v.t("When?"), "when", words, v.t("every weekday at 7:00"), Aria("describedby", "when-help")),
		P(ID("when-help"), Class("quiet"), g.Text(v.t("For example: every day at 7:00 · every Monday, Thursday at 18:00 · every 2 hours · tomorrow at 9:00 · in 20 minutes"))),
		Details(g.If(edit && !plain, g.Attr("open")), Summary(g.Text(v.t("Begin it when something happens"))),
			field(v.t("A file changes"), "file", j.File, "workspace/in/*.pdf"),
			field(v.t("The home enters a state"), "home", j.Home, "light.hall=on, sensor.hall_temperature>25"),
			FieldSet(Legend(g.Text(v.t("A mail arrives"))), field(v.t("Account"), "mailAccount", mail.Account, ""), field(v.t("Part of the sender"), "mailFrom", mail.From, ""), field(v.t("Part of the subject"), "mailSubject", mail.Subject, "")),
			FieldSet(Legend(g.Text(v.t("An event"))), field(v.t("Type of the resource"), "onType", on.Type, "mail.*"), field(v.t("URI of the resource, or of one above it"), "onUri", on.URI, ""),
				Label(g.Text(v.t("What happened")), Select(Name("onVerb"), choice("", v.t("either"), on.Verb), choice("put", v.t("stored"), on.Verb), choice("delete", v.t("deleted"), on.Verb)))),
			Label(Input(Type("checkbox"), Name("webhook"), Data("flag", "")), g.Text(v.t("An address is called (webhook)"))),
			field(v.t("Cron expression"), "cron", "", "0 7 * * 1-5"), field(v.t("Rule (RFC 5545)"), "rule", "", "FREQ=MONTHLY;BYDAY=1MO;BYHOUR=9;BYMINUTE=0")),
		Details(Summary(g.Text(v.t("More settings"))),
			g.If(!edit, field(v.t("Name"), "name", j.Name, "morning-mail", Pattern("[a-z0-9\\-]*"), Title(v.t("Small letters, digits and -")))),
			field(v.t("Time zone"), "zone", j.Zone, "Europe/Vienna"), field(v.t("Agent"), "agent", j.Agent, ""), field(v.t("Model"), "model", j.Model, ""),
			Label(g.Text(v.t("If Steward was not running")), Select(Name("missed"), choice("once", v.missedWords("once"), j.Missed), choice("all", v.missedWords("all"), j.Missed), choice("skip", v.missedWords("skip"), j.Missed))),
			Label(g.Text(v.t("While an earlier run is not over")), Select(Name("overlap"), choice("", "–", j.Overlap), choice("skip", v.overlapWords("skip"), j.Overlap), choice("queue", v.overlapWords("queue"), j.Overlap))),
			field(v.t("Quiet hours"), "quiet", j.Quiet, "22:00-7:00"),
			field(v.t("Tries after a failure"), "retries", number(j.Retries), "0", Type("number"), Min("0")),
			field(v.t("Begins up to so many seconds late"), "jitter", number(j.Jitter), "0", Type("number"), Min("0")),
			field(v.t("Most a run may cost, in US dollars"), "maxCost", cost, "", Type("number"), Min("0"), Step("any")),
			field(v.t("Longest a run may take, in seconds"), "maxTime", number(j.MaxTime), "", Type("number"), Min("0")),
			Label(g.Text(v.t("Tools: one line each, such as mail.send: deny (allow, ask or deny)")), Textarea(Name("tools"), Rows("2"), Class("code"), g.Text(toolLines(j.Tools)))),
			FieldSet(Legend(g.Text(v.t("Only if this has changed"))), field(v.t("Tool"), "checkTool", check.Tool, "mail.list"), field(v.t("Arguments"), "checkArgs", check.Args, "{}"), field(v.t("Part of the result (JSON pointer)"), "checkPointer", check.Pointer, "")),
			Label(Input(Type("checkbox"), Name("notify"), Data("flag", ""), g.If(j.Deliver.Notify, Checked())), g.Text(v.t("Notify me of the answer"))),
			field(v.t("Conversation that gets the answer, too"), "deliver", j.Deliver.Conversation, "")),
		Div(ID("job-preview"), Role("status")),
		v.dialogButtons(v.t("Preview")))
}

// jobFields are the fields of the form.
type jobFields struct {
	Edit, Before, Text, When, File, Home, MailAccount, MailFrom, MailSubject, OnType, OnURI, OnVerb, Cron, Rule string
	Name, Zone, Agent, Model, Missed, Overlap, Quiet, Retries, Jitter, MaxCost, MaxTime, Tools                  string
	CheckTool, CheckArgs, CheckPointer, Deliver                                                                 string
	Webhook, Notify                                                                                             bool
}

func badField(name, value string) error {
	return fault.New(fault.Invalid, "fields_invalid", "%s: %.40q is not a number", name, value)
}

// job makes a job of the fields, without when it begins at a time that is said in words.
func (x *jobFields) job() (client.NewJob, error) {
	j := client.NewJob{Text: strings.TrimSpace(x.Text), Name: x.Name, Cron: x.Cron, Rule: x.Rule, File: x.File, Home: x.Home, Zone: x.Zone, Agent: x.Agent, Model: x.Model,
		Missed: x.Missed, Overlap: x.Overlap, Quiet: x.Quiet, Deliver: client.JobDelivery{Conversation: strings.TrimPrefix(x.Deliver, "/chat/"), Notify: x.Notify}}
	for _, n := range []struct {
		name, text string
		to         *int
	}{{"retries", x.Retries, &j.Retries}, {"jitter", x.Jitter, &j.Jitter}, {"max_time", x.MaxTime, &j.MaxTime}} {
		if n.text == "" {
			continue
		}
		var err error
		if *n.to, err = strconv.Atoi(n.text); err != nil {
			return j, badField(n.name, n.text)
		}
	}
	if x.MaxCost != "" {
		var err error
		if j.MaxCost, err = strconv.ParseFloat(x.MaxCost, 64); err != nil {
			return j, badField("max_cost", x.MaxCost)
		}
	}
	if x.OnType != "" || x.OnURI != "" {
		j.On = &client.JobEvents{Type: x.OnType, URI: x.OnURI, Verb: x.OnVerb}
	}
	if x.MailAccount != "" {
		j.Mail = &client.JobMail{Account: x.MailAccount, From: x.MailFrom, Subject: x.MailSubject}
	}
	if x.CheckTool != "" {
		j.Check = &client.JobCheck{Tool: x.CheckTool, Args: x.CheckArgs, Pointer: x.CheckPointer}
	}
	for line := range strings.Lines(x.Tools) {
		name, verdict, ok := strings.Cut(strings.TrimSpace(line), ":")
		if name == "" {
			continue
		}
		if !ok {
			return j, fault.New(fault.Invalid, "fields_invalid", "the line %.60q says not what the tool may do", line).WithHint("write it as mail.send: deny")
		}
		if j.Tools == nil {
			j.Tools = map[string]string{}
		}
		j.Tools[strings.TrimSpace(name)] = strings.TrimSpace(verdict)
	}
	if x.Webhook {
		secret := make([]byte, 32)
		if _, err := rand.Read(secret); err != nil {
			return j, err
		}
		j.Webhook = &client.JobWebhook{Secret: hex.EncodeToString(secret)}
	}
	return j, nil
}

// previewed returns the job that would be stored, and what to send so that it is. Words about when it begins are
// tried as something that repeats, and then as one time.
func (v *visit) previewed(x *jobFields) (client.Job, client.NewJob, error) {
	j, err := x.job()
	if err != nil {
		return client.Job{}, j, err
	}
	said := strings.TrimSpace(x.When)
	if x.Edit != "" {
		old, err := v.api().Job(v.ctx(), x.Edit)
		if err != nil {
			return client.Job{}, j, err
		}
		if said == x.Before {
			said = ""
		}
		same := func(a, b any) bool {
			one, _ := json.Marshal(a)   //nolint:errcheck // plain structs
			other, _ := json.Marshal(b) //nolint:errcheck // plain structs
			return string(one) == string(other)
		}
		if j.File == old.File {
			j.File = ""
		}
		if j.Home == old.Home {
			j.Home = ""
		}
		if same(j.Mail, old.Mail) {
			j.Mail = nil
		}
		if same(j.On, old.On) {
			j.On = nil
		}
		if said == "" && j.File == "" && j.Home == "" && j.Mail == nil && j.On == nil && j.Webhook == nil && j.Cron == "" && j.Rule == "" { // it begins as before
			now := j
			now.Cron = "@daily"
			seen, err := v.api().PreviewJob(v.ctx(), now)
			seen.When, seen.Next, seen.Path, seen.Cron = old.When, old.Next, old.Path, ""
			return seen, j, err
		}
	}
	if said == "" {
		seen, err := v.api().PreviewJob(v.ctx(), j)
		return seen, j, err
	}
	repeats, once := j, j
	repeats.Every, once.Once = said, said
	seen, err := v.api().PreviewJob(v.ctx(), repeats)
	if err == nil || !fault.Is(err, fault.Invalid) {
		return seen, repeats, err
	}
	if seen, second := v.api().PreviewJob(v.ctx(), once); second == nil {
		return seen, once, nil
	} else if fault.HasCode(second, "job_never") || fault.HasCode(second, "time_past") {
		err = second
	}
	return seen, repeats, err
}

// jobPreview shows when a job would begin, with the button that adds it.
func (v *visit) jobPreview(in json.RawMessage) (*reply, error) {
	x, err := read[jobFields](in)
	if err != nil {
		return nil, err
	}
	seen, j, err := v.previewed(&x)
	if err != nil {
		return nil, err
	}
	what, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	label := v.t("Add this job")
	if x.Edit != "" {
		label = v.t("Save")
	}
	secret := ""
	if j.Webhook != nil {
		secret = j.Webhook.Secret
	}
	return &reply{Patches: []patch{put("job-preview", "", Div(ID("job-preview"), Role("status"), Class("item preview"), Data("reveal", ""),
		P(Strong(ownText(seen.When))),
		g.If(len(seen.Next) > 0, Ul(g.Map(seen.Next, func(t time.Time) g.Node { return Li(when(t)) }))),
		g.If(len(seen.Next) == 0, P(g.Text(v.t("It begins whenever that happens.")))),
		g.If(secret != "", P(g.Text(v.t("Keep this secret, with which calls are signed. It is shown only here:")), g.Text(" "), Code(g.Text(secret)))),
		v.button("job-save", label, "primary", "edit", x.Edit, "job", string(what))))}}, nil
}

// jobSave adds or changes a job as it was shown.
func (v *visit) jobSave(in json.RawMessage) (*reply, error) {
	x, err := read[struct{ Edit, Job string }](in)
	if err != nil {
		return nil, err
	}
	j, err := read[client.NewJob](json.RawMessage(x.Job))
	if err != nil {
		return nil, err
	}
	var out client.Job
	if x.Edit != "" {
		out, err = v.api().EditJob(v.ctx(), x.Edit, j)
	} else {
		out, err = v.api().AddJob(v.ctx(), j)
	}
	if err != nil {
		return nil, err
	}
	return &reply{Go: "/jobs/" + out.Name}, nil
}
