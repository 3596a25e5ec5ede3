package talk

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/command"
	"steward/internal/cli/conversations"
	"steward/internal/fault"
	"steward/internal/tools/job"
)

func (a *program) jobsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "jobs", Aliases: []string{"job"}, Short: "Have requests begin by themselves, at their times", GroupID: "talk",
		Long: "A job is a request that begins by itself: once, or again and again. Each occurrence is a turn in the job's\n" +
			"own conversation, and runs once or is reported as missed. A job begins only while Steward runs:\n" +
			"steward service install keeps it running.",
	}, a.addJob(), a.editJob(), a.listJobs(), a.showJob(), a.runJob(), a.pauseJob(), a.resumeJob(), a.removeJob(), a.jobHistory())
}

// jobFlags are the flags of steward jobs add that are not simply members of the job.
type jobFlags struct {
	job     client.NewJob
	check   client.JobCheck
	to      string
	on      string
	verb    string
	jitter  time.Duration
	maxTime time.Duration
	tools   []string
	dry     bool
	webhook bool
	mail    client.JobMail
	file    string
}

func (a *program) addJob() *cobra.Command {
	var o jobFlags
	c := &cobra.Command{Use: "add TEXT…", Short: "Add a job", Args: cobra.MinimumNArgs(1),
		Long: "Add a job, and print the next times at which it begins. Days and times are those of your time zone\n" +
			"(profile.time_zone), also when the clocks change. A job that would never begin is refused.\n\n" +
			"--every takes day, weekday, weekend, one or more days (monday,thursday), week, month, year, and numbers of\n" +
			"them (\"2 weeks\"), each with --at; and \"30 minutes\", \"2 hours\". --once takes 2026-12-01T09:00, 9:00 for the\n" +
			"next time it is nine, \"tomorrow 9:00\", or 20m for in twenty minutes.",
		Example: "  steward jobs add 'Tell me what is in my mail' --every weekday --at 7:00\n" +
			"  steward jobs add 'Check the backups' --cron '30 3 * * 1' --retries 2 --max-cost 0.20 --notify\n" +
			"  steward jobs add 'Sum up the week' --rule 'FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=16;BYMINUTE=0'"}
	o.define(c)
	c.Flags().StringVar(&o.job.Name, "name", "", "its `NAME`: lower case letters, digits and hyphens (default: from the text)")
	c.Flags().BoolVar(&o.dry, "dry-run", false, "add nothing; print what would be added")
	c.MarkFlagsOneRequired(jobTriggers...)
	return a.APICommand(command.NeedIdleNode, c, func(ctx context.Context, s *command.Session, args []string) error {
		o.job.Text, o.job.Model = strings.Join(args, " "), a.Model
		return a.addJobOf(ctx, s, &o)
	})
}

// jobTriggers are the flags that say when a job begins.
var jobTriggers = []string{"every", "once", "cron", "rule", "on", "webhook", "mail", "file", "home"}

// define defines the flags of what a job says.
func (o *jobFlags) define(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.job.Every, "every", "", "how it repeats: `DAYS` or a number of minutes, hours, days, weeks or months")
	f.StringVar(&o.job.At, "at", "", "the `TIME` of day, with --every")
	f.StringVar(&o.job.Once, "once", "", "begin once, at a `TIME`")
	f.StringVar(&o.job.Cron, "cron", "", "begin by a cron `EXPRESSION` of five fields")
	f.StringVar(&o.job.Rule, "rule", "", "begin by an `RRULE` of RFC 5545")
	f.StringVar(&o.on, "on", "", "begin on each event about a `RESOURCE`: a type such as mail.Message or mail.*, or the URI of one that it is or is below")
	f.StringVar(&o.verb, "on-verb", "", "with --on: only events of the `VERB` put or delete")
	f.BoolVar(&o.webhook, "webhook", false, "begin when a URL is called, which is printed with its secret")
	f.StringVar(&o.mail.Account, "mail", "", "begin when mail arrives in an `ACCOUNT`")
	f.StringVar(&o.mail.From, "from", "", "with --mail: only from a sender whose name or address has this `PART`")
	f.StringVar(&o.mail.Subject, "subject", "", "with --mail: only if the subject has this `PART`")
	f.StringVar(&o.file, "file", "", "begin when a file is new or changes that Steward may read: its `PATH`, or a pattern such as 'workspace/in/*.pdf'")
	f.StringVar(&o.job.Home, "home", "", "begin when the home enters a `STATE`, such as 'light.hall=on' or 'sensor.hall_temperature>25'")
	f.StringVar(&o.job.Zone, "zone", "", "the time `ZONE`, such as Europe/Vienna (default: yours)")
	f.StringVar(&o.job.Agent, "agent", "", "the `AGENT` that is asked (default: the assistant, or whom routing chooses)")
	f.StringVar(&o.job.Missed, "missed", "", "what runs of the times at which Steward did not run, by the `POLICY` once (the last), all or skip")
	f.StringVar(&o.job.Overlap, "overlap", "", "what happens while an earlier occurrence is not over, by the `POLICY` skip or queue")
	f.IntVar(&o.job.Retries, "retries", 0, "how often an occurrence that failed is tried again")
	f.DurationVar(&o.jitter, "jitter", 0, "begin up to so much later, for example 5m")
	f.StringVar(&o.job.Quiet, "quiet-hours", "", "the `HOURS` in which it does not begin but waits: 22:00-7:00")
	f.Float64Var(&o.job.MaxCost, "max-cost", 0, "the most that one attempt may cost, in US `DOLLARS`")
	f.DurationVar(&o.maxTime, "max-time", 0, "the longest that one attempt may take, without waiting for you")
	f.StringArrayVar(&o.tools, "tool", nil, "what it may do with a tool: 'NAME=allow', 'NAME=ask' or 'NAME=deny', also for patterns such as mail.*, and @action for all that change something (`RULE`)")
	f.StringVar(&o.check.Tool, "check", "", "ask no model unless the result of this query has changed: the `TOOL`")
	f.StringVar(&o.check.Args, "check-args", "", "the arguments of that tool, as `JSON`")
	f.StringVar(&o.check.Pointer, "check-part", "", "the part of the result that counts, as a JSON `POINTER`")
	f.StringVar(&o.to, "to", "", "bring answers to this `CONVERSATION` too: its id, or last")
	f.BoolVar(&o.job.Deliver.Notify, "notify", false, "notify you of answers and failures")
	command.CompleteFlag(c, "missed", command.Words("once", "all", "skip"))
	command.CompleteFlag(c, "overlap", command.Words("skip", "queue"))
	command.CompleteFlag(c, "every", command.Words("day", "weekday", "weekend", "monday", "week", "month", "hour"))
	c.MarkFlagsMutuallyExclusive(jobTriggers...)
}

// words returns the job that the flags describe.
func (o *jobFlags) words(ctx context.Context, a *program, s *command.Session) (j client.NewJob, err error) {
	j = o.job
	j.Jitter, j.MaxTime = int(o.jitter/time.Second), int(o.maxTime/time.Second)
	j.On = job.Events(o.on, o.verb)
	if j.Tools, err = toolRules(o.tools); err != nil {
		return j, err
	}
	if o.check != (client.JobCheck{}) {
		j.Check = &o.check
	}
	if o.mail != (client.JobMail{}) {
		if o.mail.Account == "" {
			return j, command.Usage("--from and --subject need --mail ACCOUNT")
		}
		j.Mail = &o.mail
	}
	if j.File = o.file; strings.HasPrefix(j.File, "~/") {
		j.File = filepath.Join(a.Getenv("HOME"), j.File[2:])
	} else if strings.HasPrefix(j.File, ".") {
		j.File = a.Path(j.File)
	}
	if o.webhook {
		key := make([]byte, 32)
		rand.Read(key) //nolint:errcheck // it never fails
		j.Webhook = &client.JobWebhook{Secret: hex.EncodeToString(key)}
	}
	j.Deliver.Conversation, err = s.ResolveConversation(ctx, o.to)
	return j, err
}

// addJobOf adds a job, or shows what would be added.
func (a *program) addJobOf(ctx context.Context, s *command.Session, o *jobFlags) error {
	j, err := o.words(ctx, a, s)
	if err != nil {
		return err
	}
	if o.dry {
		v, err := s.PreviewJob(ctx, j)
		return command.PrintValue(a.Program, v, err, jobText)
	}
	v, err := s.AddJob(ctx, j)
	if err != nil {
		return err
	}
	return a.printChanged(s, "added", v, j.Webhook)
}

// printChanged prints a job that was added or changed, with the secret of a webhook that is new.
func (a *program) printChanged(s *command.Session, done string, v client.Job, hook *client.JobWebhook) error {
	rows := [][2]string{{done, v.Name}, {"begins", v.When + " (" + v.Zone + ")"}, {"next", job.Times(&v)}}
	if hook != nil {
		rows = append(rows, [2]string{"url", a.urlOf(s, v.Path)}, [2]string{"secret", hook.Secret})
	}
	if a.JSON {
		out := struct {
			client.Job
			URL    string `json:"url,omitzero"`
			Secret string `json:"secret,omitzero"`
		}{Job: v}
		if hook != nil {
			out.URL, out.Secret = a.urlOf(s, v.Path), hook.Secret
		}
		return a.PrintJSON(out)
	}
	if err := a.Print(command.Fields(8, rows)); err != nil {
		return err
	}
	if hook != nil {
		a.Note("the secret is shown only now; --webhook with steward jobs edit makes a new one")
	}
	if v.Note != "" {
		a.Note("%s", v.Note)
	}
	return nil
}

// urlOf returns the URL of a path of the server that runs, or will run.
func (a *program) urlOf(s *command.Session, path string) string {
	base := s.Server.URL
	if base == "" {
		if set, err := a.Settings(); err == nil {
			base = "http://" + set.Listen
		}
	}
	return base + path
}

func (a *program) editJob() *cobra.Command {
	var o jobFlags
	c := &cobra.Command{Use: "edit NAME [TEXT…]", Short: "Change what a job says", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeJobs(),
		Long: "Change what a job says, by the flags of steward jobs add. What no flag names stays as it is. With a new\n" +
			"time or another trigger it begins by that from now on. --tool replaces all rules for tools; an empty flag\n" +
			"removes what it names, as in --check ''. --webhook gives it a new URL and secret; the old ones end.",
		Example: "  steward jobs edit backups --every day --at 4:00\n" +
			"  steward jobs edit backups 'Check the backups and the free space'"}
	o.define(c)
	return a.StoredCommand(command.NeedIdleNode, c, func(ctx context.Context, s *command.Session, args []string) error {
		old, err := s.Job(ctx, args[0])
		if err != nil {
			return err
		}
		said, err := o.words(ctx, a, s)
		if err != nil {
			return err
		}
		j := edited(old.NewJob, said, c.Flags().Changed)
		if len(args) > 1 {
			j.Text = strings.Join(args[1:], " ")
		}
		if a.Model != "" {
			j.Model = a.Model
		}
		v, err := s.EditJob(ctx, old.Name, j)
		if err != nil {
			return err
		}
		return a.printChanged(s, "changed", v, j.Webhook)
	})
}

// edited returns what a job is to say: what is said by flags, and the rest as it was. Without a flag for when it
// begins, nothing is said about that.
func edited(old, said client.NewJob, changed func(flag string) bool) client.NewJob {
	j := old
	j.Every, j.At, j.Once, j.Cron, j.Rule, j.On, j.Webhook, j.Mail, j.File, j.Home = said.Every, said.At, said.Once, said.Cron, said.Rule, said.On, said.Webhook, said.Mail, said.File, said.Home
	for flag, set := range map[string]func(){
		"zone": func() { j.Zone = said.Zone }, "agent": func() { j.Agent = said.Agent }, "missed": func() { j.Missed = said.Missed },
		"overlap": func() { j.Overlap = said.Overlap }, "retries": func() { j.Retries = said.Retries }, "jitter": func() { j.Jitter = said.Jitter },
		"quiet-hours": func() { j.Quiet = said.Quiet }, "max-cost": func() { j.MaxCost = said.MaxCost }, "max-time": func() { j.MaxTime = said.MaxTime },
		"tool": func() { j.Tools = said.Tools }, "notify": func() { j.Deliver.Notify = said.Deliver.Notify }, "to": func() { j.Deliver.Conversation = said.Deliver.Conversation },
	} {
		if changed(flag) {
			set()
		}
	}
	if changed("check") || changed("check-args") || changed("check-part") {
		j.Check = mergedCheck(old.Check, said.Check, changed)
	}
	return j
}

// mergedCheck changes the parts of a check that flags name.
func mergedCheck(old, said *client.JobCheck, changed func(flag string) bool) *client.JobCheck {
	var out, now client.JobCheck
	if old != nil {
		out = *old
	}
	if said != nil {
		now = *said
	}
	if changed("check") {
		out = client.JobCheck{Tool: now.Tool}
	}
	if changed("check-args") {
		out.Args = now.Args
	}
	if changed("check-part") {
		out.Pointer = now.Pointer
	}
	if out.Tool == "" {
		return nil
	}
	return &out
}

func (a *program) listJobs() *cobra.Command {
	return command.ListCommand(a.Program, &cobra.Command{Use: "list", Short: "List your jobs"}, "there are no jobs",
		func(ctx context.Context, s *command.Session, _ []string) ([]client.Job, error) { return s.Jobs(ctx) },
		func(list []client.Job) string {
			rows := [][]string{{"NAME", "NEXT", "BEGINS", "WHAT"}}
			for _, j := range list {
				next, begins := j.State, j.When
				if len(j.Next) > 0 {
					next = j.Next[0].Format("Mon 2 Jan 15:04")
				}
				if j.Once != "" { // the column before says when
					begins = "once"
				}
				rows = append(rows, []string{command.PlainLine(j.Name), next, command.PlainLine(begins), command.PlainLine(j.Text)})
			}
			return command.Columns(rows, a.Width())
		})
}

func (a *program) showJob() *cobra.Command {
	return a.APICommand(command.NeedReadOnly, &cobra.Command{Use: "show NAME", Short: "Show a job: when it begins, what it may do and cost", ValidArgsFunction: a.completeJobs()},
		func(ctx context.Context, s *command.Session, args []string) error {
			j, err := s.Job(ctx, args[0])
			return command.PrintValue(a.Program, j, err, jobText)
		})
}

// jobText formats everything about a job.
func jobText(j client.Job) string {
	created := ""
	if !j.Created.IsZero() {
		created = j.Created.Local().Format("2 Jan 2006 15:04") + " by " + j.Creator
	}
	check := ""
	if j.Check != nil {
		check = "only if the result of " + strings.TrimSpace(j.Check.Tool+" "+j.Check.Args+" "+j.Check.Pointer) + " has changed"
	}
	jitter := ""
	if j.Jitter > 0 {
		jitter = "up to " + (time.Duration(j.Jitter) * time.Second).String()
	}
	retries := ""
	if j.Retries > 0 {
		retries = fmt.Sprint(j.Retries)
	}
	count := ""
	if j.Count.Due > 0 {
		count = fmt.Sprintf("%d due: %d done, %d failed, %d missed, %d skipped", j.Count.Due, j.Count.Done, j.Count.Failed, j.Count.Missed, j.Count.Skipped)
	}
	cost := ""
	if j.Count.Cost > 0 {
		cost = fmt.Sprintf("$%.4f", j.Count.Cost)
	}
	to := []string{}
	if j.Deliver.Notify {
		to = append(to, "a notification")
	}
	if j.Deliver.Conversation != "" {
		to = append(to, "the conversation "+j.Deliver.Conversation)
	}
	return command.Fields(15, [][2]string{{"name", j.Name}, {"state", j.State}, {"what", j.Text}, {"agent", j.Agent}, {"model", j.Model},
		{"begins", j.When + " (" + j.Zone + ")"}, {"webhook", j.Path}, {"next", job.Times(&j)}, {"check", check}, {"jitter", jitter}, {"quiet hours", j.Quiet},
		{"if missed", j.Missed}, {"overlap", j.Overlap}, {"retries", retries}, {"may do", job.May(j.Tools)}, {"may cost", job.MayCost(&j)},
		{"answers go to", strings.Join(to, ", ")}, {"conversation", j.Conversation}, {"labels", strings.Join(j.Labels, ", ")}, {"created", created}, {"occurrences", count}, {"cost", cost}})
}

// jobPoll is how often steward jobs run looks whether the job is over.
const jobPoll = 300 * time.Millisecond

func (a *program) runJob() *cobra.Command {
	var background bool
	c := &cobra.Command{Use: "run NAME", Short: "Let a job begin now", ValidArgsFunction: a.completeJobs(),
		Long: "Let a job begin now, apart from its times, and wait for its end. Its check is not asked.\n" +
			"With --background it does not wait; that needs a Steward that runs."}
	c.Flags().BoolVar(&background, "background", false, "do not wait for its end")
	return a.StoredCommand(command.NeedNode, c, func(ctx context.Context, s *command.Session, args []string) error {
		if background && s.IsLocal() {
			return fault.New(fault.Unavailable, "server_unknown", "no Steward runs that could carry out the job in the background").WithHint("start steward serve, or leave --background out")
		}
		o, err := s.RunJob(ctx, args[0])
		if err == nil && !background {
			o, err = a.awaitJob(ctx, s, args[0], o)
		}
		if err != nil {
			return err
		}
		if err := a.printOccurrence(ctx, s, o); err != nil {
			return err
		}
		if o.State == "failed" {
			return command.ExitCode(command.ExitFailed)
		}
		return nil
	})
}

// awaitJob waits until an occurrence is over, or waits for a person.
func (a *program) awaitJob(ctx context.Context, s *command.Session, name string, o client.Occurrence) (client.Occurrence, error) {
	for o.Open() && o.State != "waiting" {
		select {
		case <-time.After(jobPoll):
		case <-ctx.Done():
			return o, context.Cause(ctx)
		}
		list, err := s.JobHistory(ctx, name, 50)
		if err != nil {
			return o, err
		}
		for i := range list {
			if list[i].ID == o.ID {
				o = list[i]
			}
		}
	}
	return o, nil
}

// printOccurrence prints what became of an occurrence that a person has begun: its answer, and a note.
func (a *program) printOccurrence(ctx context.Context, s *command.Session, o client.Occurrence) error {
	if a.JSON {
		return a.PrintJSON(o)
	}
	switch o.State {
	case "waiting":
		a.Note("it waits for your answer: steward approvals")
	case "due", "running":
		a.Note("it has begun: steward jobs history shows what becomes of it")
	case "done":
		if o.Conversation == "" { // a backup has none
			a.Note("it is done")
			return nil
		}
		m, err := conversations.NewestMessage(ctx, s, o.Conversation)
		if err != nil || m == nil {
			return err
		}
		return a.Print(strings.TrimRight(m.Text(), "\n") + "\n")
	default:
		a.Note("it did not work: %s", command.WithCode(o.State, o.Reason))
	}
	return nil
}

func (a *program) pauseJob() *cobra.Command {
	return a.StoredCommand(command.NeedDatabase, &cobra.Command{Use: "pause NAME", Short: "Let a job begin no more until it is resumed", ValidArgsFunction: a.completeJobs(),
		Long: "Let a job begin no more until it is resumed. What would have been due meanwhile is not missed.\nAn occurrence that has begun goes on."},
		func(ctx context.Context, s *command.Session, args []string) error {
			j, err := s.PauseJob(ctx, args[0])
			return a.PrintDone(j, err, "%s is paused", j.Name)
		})
}

func (a *program) resumeJob() *cobra.Command {
	return a.StoredCommand(command.NeedDatabase, &cobra.Command{Use: "resume NAME", Short: "Let a paused job begin again", ValidArgsFunction: a.completeJobs()},
		func(ctx context.Context, s *command.Session, args []string) error {
			j, err := s.ResumeJob(ctx, args[0])
			return a.PrintDone(j, err, "%s begins again: %s", j.Name, job.Times(&j))
		})
}

func (a *program) removeJob() *cobra.Command {
	return a.StoredCommand(command.NeedDatabase, &cobra.Command{Use: "remove NAME…", Short: "Remove jobs and their history", ValidArgsFunction: a.completeJobs(),
		Long: "Remove jobs and their history. Their conversations stay. What has begun is not stopped: steward requests cancel."},
		func(ctx context.Context, s *command.Session, args []string) error {
			for _, name := range args {
				if err := s.RemoveJob(ctx, name); err != nil {
					return err
				}
				if !a.JSON {
					a.Note("%s is removed", command.PlainLine(name))
				}
			}
			return nil
		})
}

func (a *program) jobHistory() *cobra.Command {
	var limit int
	c := command.ListCommand(a.Program, &cobra.Command{Use: "history NAME", Short: "List what became of a job's occurrences, newest first", ValidArgsFunction: a.completeJobs(),
		Long: "List the occurrences of a job, newest first: those that were done or failed, those that were missed because\n" +
			"Steward did not run, and those that were skipped, with the reason. The newest 200 are kept."}, "the job has not begun yet",
		func(ctx context.Context, s *command.Session, args []string) ([]client.Occurrence, error) {
			return s.JobHistory(ctx, args[0], limit)
		},
		func(list []client.Occurrence) string {
			rows := [][]string{{"DUE", "STATE", "TOOK", "COST", "WHY"}}
			for _, o := range list {
				due := o.Due.Format("2006-01-02 15:04")
				if o.Several > 1 {
					due = fmt.Sprintf("%s and %d more until %s", due, o.Several-1, o.Last.Format("2006-01-02 15:04"))
				}
				took, cost := "", ""
				if !o.Began.IsZero() && !o.Ended.IsZero() {
					took = o.Ended.Sub(o.Began).Round(time.Second).String()
				}
				if o.Cost > 0 {
					cost = fmt.Sprintf("$%.4f", o.Cost)
				}
				why := o.Reason
				if o.Cause != "" {
					why = strings.TrimPrefix(why+", begun by "+o.Cause, ", ")
				}
				rows = append(rows, []string{due, o.State, took, cost, command.PlainLine(why)})
			}
			return command.Columns(rows, a.Width())
		})
	command.LimitFlag(c, &limit, 20, "list at most `N`")
	return c
}

// completeJobs offers the names of the jobs.
func (a *program) completeJobs() command.Completer {
	return command.Offers(a.Program, command.NeedReadOnly, func(ctx context.Context, s *command.Session) ([]client.Job, error) { return s.Jobs(ctx) },
		func(j *client.Job) (string, string) { return j.Name, j.When + ": " + j.Text })
}
