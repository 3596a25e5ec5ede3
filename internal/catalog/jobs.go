package catalog

import (
	"strings"

	"steward/internal/strict"
)

// maxAgentJobs is how many jobs an agent may have.
const maxAgentJobs = 20

// Job is a job of an agent: a request to it that begins by itself. It is approved with the agent, belongs to the
// person who approved it, and begins only while the agent may be used. The fields are those of steward jobs add.
type Job struct {
	Text    string            `yaml:"text" json:"text"`
	Every   string            `yaml:"every" json:"every,omitzero"`
	At      string            `yaml:"at" json:"at,omitzero"`
	Once    string            `yaml:"once" json:"once,omitzero"`
	Cron    string            `yaml:"cron" json:"cron,omitzero"`
	Rule    string            `yaml:"rule" json:"rule,omitzero"`
	On      string            `yaml:"on" json:"on,omitzero"`
	Mail    JobMail           `yaml:"mail" json:"mail,omitzero"`
	File    string            `yaml:"file" json:"file,omitzero"`
	Home    string            `yaml:"home" json:"home,omitzero"`
	Zone    string            `yaml:"zone" json:"zone,omitzero"`
	Missed  string            `yaml:"missed" json:"missed,omitzero"`
	Overlap string            `yaml:"overlap" json:"overlap,omitzero"`
	Retries int               `yaml:"retries" json:"retries,omitzero"`
	Quiet   string            `yaml:"quiet_hours" json:"quiet_hours,omitzero"`
	MaxCost float64           `yaml:"max_cost" json:"max_cost,omitzero"`
	MaxTime int               `yaml:"max_minutes" json:"max_minutes,omitzero"`
	Tools   map[string]string `yaml:"tools" json:"tools,omitzero"`
	Notify  bool              `yaml:"notify" json:"notify,omitzero"`
}

// JobMail are the e-mails that a job begins on.
type JobMail struct {
	Account string `yaml:"account" json:"account,omitzero"`
	From    string `yaml:"from" json:"from,omitzero"`
	Subject string `yaml:"subject" json:"subject,omitzero"`
}

// jobs checks the jobs of a definition. Whether their times can be read is said by Options.Jobs.
func (c checker) jobs(d *definition) {
	if len(d.Jobs) > maxAgentJobs {
		c.bad(c.at("jobs"), "value_invalid", "merge some", "the agent has %d jobs: at most %d", len(d.Jobs), maxAgentJobs)
	}
	for _, name := range sortedKeys(d.Jobs) {
		if why := badName(name); why != "" {
			c.bad(c.key("jobs", name), "name_invalid", nameRemedy, "%q is not a valid name of a job: %s", strict.Clip(name), why)
		}
		if strings.TrimSpace(d.Jobs[name].Text) == "" {
			c.bad(c.key("jobs", name), "value_invalid", "write text: with what is asked", "jobs.%s has no text", strict.Clip(name))
		}
		if c.readJob == nil {
			continue
		}
		if _, err := c.readJob(name, d.Jobs[name]); err != nil {
			c.bad(c.key("jobs", name), "value_invalid", "write it as the flags of steward jobs add (docs/guides/jobs.md)", "jobs.%s: %v", strict.Clip(name), err)
		}
	}
}

// jobs says which jobs an agent has.
func (w *warner) jobs(d *parsed, readJob func(string, Job) (string, error)) {
	for _, name := range sortedKeys(d.Jobs) {
		when := ""
		if readJob != nil {
			when, _ = readJob(name, d.Jobs[name]) // an error is a problem of the definition
		}
		w.warnf("it begins by itself, as a job of whoever approves it: %s %s: %s", name, when, strict.Clip(d.Jobs[name].Text))
	}
}
