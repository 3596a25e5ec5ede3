package job

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/tools/local"
)

// everyForm is a number and a unit.
var everyForm = regexp.MustCompile(`^(\d{1,4}) ?([a-z]+)$`)

// days are the names of days in rules, by their first three letters in English.
const days = "mon=MO tue=TU wed=WE thu=TH fri=FR sat=SA sun=SU"

const workdays = "MO,TU,WE,TH,FR"

// triggers returns how many times and happenings a job is to begin at.
func triggers(w *client.NewJob) (set int) {
	for _, is := range []bool{w.Every != "", w.Once != "", w.Cron != "", w.Rule != "", w.On != nil, w.Webhook != nil, w.Mail != nil, w.File != "", w.Home != ""} {
		if is {
			set++
		}
	}
	return set
}

// trigger reads when a job begins. now is the present in the job's zone.
func trigger(w *client.NewJob, now time.Time) (record.Trigger, error) {
	set := triggers(w)
	minute := now.Truncate(time.Minute)
	switch {
	case set != 1:
		return record.Trigger{}, invalid("give one of every, once, cron, rule, on, webhook, mail, file and home, for example every day at 7:00", "a job begins in one way, and this one has %d", set)
	case w.At != "" && w.Every == "":
		return record.Trigger{}, invalid("give every too, for example every day; or once", "a time of day alone does not say on which days")
	case w.On != nil:
		return record.Trigger{On: record.EventFilter{Type: w.On.Type, URI: w.On.URI, Verb: w.On.Verb}}, nil
	case w.Webhook != nil:
		return record.Trigger{Hook: id.New()}, nil
	case w.Mail != nil:
		return record.Trigger{Mail: record.MailFilter{Account: w.Mail.Account, From: strings.TrimSpace(w.Mail.From), Subject: strings.TrimSpace(w.Mail.Subject)}}, nil
	case w.File != "":
		return record.Trigger{File: w.File}, nil
	case w.Home != "":
		return record.Trigger{Home: strings.TrimSpace(w.Home)}, nil
	case w.Cron != "":
		return record.Trigger{Cron: strings.TrimSpace(w.Cron), Start: minute.UTC()}, nil
	case w.Rule != "":
		rule := strings.TrimSpace(w.Rule)
		if len(rule) > 6 && strings.EqualFold(rule[:6], "RRULE:") {
			rule = rule[6:]
		}
		return record.Trigger{Rule: rule, Start: minute.UTC()}, nil
	case w.Once != "":
		at, err := once(w.Once, now)
		return record.Trigger{At: at.UTC().Truncate(time.Second)}, err
	}
	return every(w.Every, w.At, now)
}

func invalid(hint, format string, args ...any) error {
	return fault.New(fault.Invalid, "trigger_invalid", format, args...).WithHint("%s", hint)
}

// once reads a time, or how long it is until then.
func once(text string, now time.Time) (time.Time, error) {
	said := strings.ToLower(strings.Join(strings.Fields(text), " "))
	if d, err := time.ParseDuration(strings.ReplaceAll(strings.TrimPrefix(said, "in "), " ", "")); err == nil && d > 0 {
		return now.Add(d), nil
	}
	if n, unit, ok := count(strings.TrimPrefix(said, "in ")); ok {
		switch unit {
		case "minute":
			return now.Add(time.Duration(n) * time.Minute), nil
		case "hour":
			return now.Add(time.Duration(n) * time.Hour), nil
		case "day":
			return now.AddDate(0, 0, n), nil
		case "week":
			return now.AddDate(0, 0, 7*n), nil
		}
	}
	day := -1
	for i, word := range []string{"today", "tomorrow"} {
		if rest, ok := strings.CutPrefix(said, word); ok {
			said, day = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), "at ")), i
		}
	}
	c, err := local.ReadClock(strings.TrimPrefix(said, "at "), now)
	if err != nil || c.Fixed || c.Dated {
		return c.In(now.Location()), err
	}
	if day == 1 || day < 0 && !c.In(now.Location()).After(now) {
		c.Time = c.AddDate(0, 0, 1)
	}
	return c.In(now.Location()), nil
}

// count reads a number and a unit: "2 weeks", "30m".
func count(text string) (n int, unit string, ok bool) {
	m := everyForm.FindStringSubmatch(text)
	if m == nil {
		return 0, "", false
	}
	n, err := strconv.Atoi(m[1])
	unit = unitOf(m[2])
	return n, unit, err == nil && n > 0 && unit != ""
}

func unitOf(word string) string {
	switch word {
	case "m", "min", "mins":
		return "minute"
	case "h", "hr", "hrs", "hourly":
		return "hour"
	case "d", "daily":
		return "day"
	case "w", "weekly":
		return "week"
	case "monthly":
		return "month"
	case "yearly":
		return "year"
	}
	if word = strings.TrimSuffix(word, "s"); slices.Contains([]string{"minute", "hour", "day", "week", "month", "year"}, word) {
		return word
	}
	return ""
}

// every reads how a job repeats.
func every(text, at string, now time.Time) (record.Trigger, error) {
	said := strings.ToLower(strings.Join(strings.Fields(text), " "))
	said = strings.TrimPrefix(strings.TrimPrefix(said, "every "), "on ")
	if days, clock, ok := strings.Cut(said, " at "); ok && at == "" {
		said, at = days, clock
	}
	n, unit, ok := count(said)
	if !ok {
		n, unit = 1, unitOf(said)
	}
	if d, err := time.ParseDuration(strings.ReplaceAll(said, " ", "")); unit == "" && err == nil && d > 0 {
		n, unit = int(d/time.Minute), "minute"
	}
	if unit == "minute" || unit == "hour" {
		if at != "" {
			return record.Trigger{}, invalid("leave the time of day out, or give every day", "a job that repeats every %.40q has no time of day", text)
		}
		step := time.Duration(n) * time.Minute
		if unit == "hour" {
			step *= 60
		}
		return record.Trigger{Every: int(step / time.Second), Start: now.Truncate(time.Minute).Add(step).UTC()}, nil
	}
	rule, err := ruleOf(said, n, unit)
	if err != nil {
		return record.Trigger{}, err
	}
	start := now.Truncate(time.Minute)
	if at != "" {
		if _, err := strconv.Atoi(at); err == nil && len(at) <= 2 { // "at 7"
			at += ":00"
		}
		c, err := local.ReadClock(at, now)
		if err != nil {
			return record.Trigger{}, err
		}
		if c.Fixed || c.Dated { // only its time of day is wanted
			shown := c.In(now.Location()).In(now.Location()) // a fixed time keeps its own offset at first
			c = local.Clock{Time: time.Date(now.Year(), now.Month(), now.Day(), shown.Hour(), shown.Minute(), 0, 0, time.UTC)}
		}
		if start = c.In(now.Location()); start.Before(now.Truncate(time.Minute)) {
			c.Time = c.AddDate(0, 0, 1)
			start = c.In(now.Location())
		}
		rule += fmt.Sprintf(";BYHOUR=%d;BYMINUTE=%d", c.Hour(), c.Minute())
	}
	return record.Trigger{Rule: rule, Start: start.UTC().Truncate(time.Second)}, nil
}

// ruleOf returns the RRULE without a time of day.
func ruleOf(said string, n int, unit string) (string, error) {
	interval := ""
	if n > 1 {
		interval = fmt.Sprintf(";INTERVAL=%d", n)
	}
	switch {
	case unit == "day":
		return "FREQ=DAILY" + interval, nil
	case unit != "":
		return "FREQ=" + strings.ToUpper(unit) + "LY" + interval, nil
	case said == "weekday" || said == "weekdays" || said == "workday" || said == "workdays":
		return "FREQ=WEEKLY;BYDAY=" + workdays, nil
	case said == "weekend" || said == "weekends":
		return "FREQ=WEEKLY;BYDAY=SA,SU", nil
	}
	var list []string
	for _, word := range strings.FieldsFunc(said, func(r rune) bool { return r == ',' || r == ' ' }) {
		if word == "and" {
			continue
		}
		day := ""
		for pair := range strings.FieldsSeq(days) {
			short, code, _ := strings.Cut(pair, "=")
			if strings.HasPrefix(word, short) && strings.HasPrefix(fullDay(code), strings.TrimSuffix(word, "s")) {
				day = code
			}
		}
		if day == "" {
			return "", invalid("write day, weekday, monday, week, month, 2 weeks, 30 minutes or the like", "%.60q does not say how often", said)
		}
		if !slices.Contains(list, day) {
			list = append(list, day)
		}
	}
	if len(list) == 0 {
		return "", invalid("write day, weekday, monday, week, month, 2 weeks, 30 minutes or the like", "%.60q does not say how often", said)
	}
	return "FREQ=WEEKLY;BYDAY=" + strings.Join(list, ","), nil
}

// fullDay returns the English name of a day of a rule.
func fullDay(code string) string {
	i := slices.Index([]string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}, code)
	if i < 0 {
		return code
	}
	return strings.ToLower(time.Weekday(i).String())
}

// When says in words when a job begins.
func When(j *record.Job) string {
	zone, err := time.LoadLocation(j.Zone)
	if err != nil {
		zone = time.UTC
	}
	switch {
	case !j.At.IsZero():
		return "once, on " + j.At.In(zone).Format(clockForm)
	case j.Every > 0:
		return "every " + interval(time.Duration(j.Every)*time.Second)
	case j.Cron != "":
		return "cron " + j.Cron
	case j.Rule != "":
		return ruleWords(j.Rule, j.Start.In(zone))
	case !j.Hook.Zero():
		return "when its webhook is called"
	case j.Mail != record.MailFilter{}:
		return mailWords(j.Mail)
	case j.File != "":
		return "when the file " + j.File + " changes"
	case j.Home != "":
		return "when the home reports " + j.Home
	}
	what := strings.TrimSpace(j.On.Type + " " + j.On.URI)
	switch j.On.Verb {
	case "put":
		return "when " + what + " is written"
	case "delete":
		return "when " + what + " is deleted"
	}
	return "when " + what + " changes"
}

func mailWords(m record.MailFilter) string {
	text := "when mail arrives in " + m.Account
	if m.From != "" {
		text += " from " + m.From
	}
	if m.Subject != "" {
		text += fmt.Sprintf(" about %q", m.Subject)
	}
	return text
}

const clockForm = "Mon 2 Jan 2006 15:04 MST"

func interval(d time.Duration) string {
	n, unit := int(d/time.Minute), "minute"
	switch {
	case d%time.Minute != 0:
		n, unit = int(d/time.Second), "second"
	case d%time.Hour == 0:
		n, unit = int(d/time.Hour), "hour"
	}
	return plural(n, unit)
}

func plural(n int, unit string) string {
	if n == 1 {
		return unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// ruleWords describes the rules that every makes. Others stand as they are.
func ruleWords(rule string, start time.Time) string {
	part := map[string]string{}
	for p := range strings.SplitSeq(strings.ToUpper(rule), ";") {
		k, v, _ := strings.Cut(p, "=")
		part[k] = v
	}
	n, err := strconv.Atoi(part["INTERVAL"])
	if err != nil {
		n = 1
	}
	unit := map[string]string{"DAILY": "day", "WEEKLY": "week", "MONTHLY": "month", "YEARLY": "year"}[part["FREQ"]]
	clock := fmt.Sprintf(" at %d:%02d", start.Hour(), start.Minute())
	hour, errHour := strconv.Atoi(part["BYHOUR"])
	minute, errMinute := strconv.Atoi(part["BYMINUTE"])
	if errHour == nil && errMinute == nil {
		clock = fmt.Sprintf(" at %d:%02d", hour, minute)
	}
	by := part["BYDAY"]
	known := len(part)
	for _, k := range []string{"FREQ", "INTERVAL", "BYHOUR", "BYMINUTE", "BYDAY"} {
		if _, ok := part[k]; ok {
			known--
		}
	}
	switch {
	case known > 0 || unit == "" || (part["BYHOUR"] != "") != (errHour == nil) || (part["BYMINUTE"] != "") != (errMinute == nil), (errHour == nil) != (errMinute == nil), by != "" && (unit != "week" || n != 1):
		return "by the rule " + rule
	case by == workdays:
		return "every weekday" + clock
	case by == "SA,SU":
		return "at weekends" + clock
	case by != "":
		var list []string
		for code := range strings.SplitSeq(by, ",") {
			name := fullDay(code)
			if name == code {
				return "by the rule " + rule
			}
			list = append(list, strings.ToUpper(name[:1])+name[1:])
		}
		return "every " + strings.Join(list, ", ") + clock
	case unit == "week":
		return "every " + plural(n, unit) + " on " + start.Weekday().String() + clock
	}
	return "every " + plural(n, unit) + clock
}

// Events returns the events that a type or a URI of a resource names; nil: none.
func Events(what, verb string) *client.JobEvents {
	switch what = strings.TrimSpace(what); {
	case what == "":
		return nil
	case strings.Contains(what, ":"):
		return &client.JobEvents{URI: what, Verb: verb}
	}
	return &client.JobEvents{Type: what, Verb: verb}
}

// nameOf makes the name of a job from the first words of its text.
func nameOf(text string) string {
	var b strings.Builder
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) {
		if b.Len() > 0 && b.Len()+1+len(word) > 30 {
			break
		}
		if b.Len() > 0 {
			b.WriteByte('-')
		}
		b.WriteString(word[:min(len(word), 30)])
	}
	if b.Len() == 0 {
		return "job"
	}
	return b.String()
}

// ZoneName returns the IANA name of a time zone. That of this machine has none of its own.
func ZoneName(loc *time.Location) string {
	if loc != time.Local || loc.String() != "Local" {
		return loc.String()
	}
	if path, err := filepath.EvalSymlinks("/etc/localtime"); err == nil {
		if _, name, ok := strings.Cut(path, "/zoneinfo/"); ok {
			if name == "Etc/UTC" {
				return "UTC"
			}
			if _, err := time.LoadLocation(name); err == nil {
				return name
			}
		}
	}
	if name := os.Getenv("TZ"); name != "" && name != "Local" {
		if _, err := time.LoadLocation(name); err == nil {
			return name
		}
	}
	return "UTC"
}

// quiet reads hours such as "22:00-7:00".
func quiet(text string) (record.Quiet, error) {
	if text == "" {
		return record.Quiet{}, nil
	}
	from, to, _ := strings.Cut(text, "-")
	var out [2]string
	for i, s := range []string{from, to} {
		t, err := time.Parse("15:04", strings.TrimSpace(s))
		if err != nil {
			return record.Quiet{}, fault.New(fault.Invalid, "job_invalid", "%.40q are not quiet hours", text).WithHint("write two times such as 22:00-7:00")
		}
		out[i] = t.Format("15:04")
	}
	return record.Quiet{From: out[0], To: out[1]}, nil
}
