// Package heartbeat speaks up by itself: it tells a user what has changed and matters, and nothing else.
//
// The heartbeat looks every quarter of an hour, and the reviews once a day, a week and a month, in the
// user's time zone. They are jobs of the scheduler (record.Job.Kind), so there is one clock and one proof
// that each time counts once: package jobs has it. They are off until a person turns them on (Service.On).
//
// # A look
//
// At each of its times a job looks (Look). Each Source says what has changed for the user since the job last
// looked: events, work that failed, messages without an answer, what is due, agents' own checks. No source
// calls a model. If none has anything, that is all: the job's counters change, and nothing is spent. A source
// that fails is named in the status, and is asked later from where it was.
//
// Otherwise the changes become the Digest of an occurrence, which is recorded before a model is asked. The
// model gets it in one message (Content), whose list carries the labels "private" and "untrusted", because
// events and mails are written by others. It may look things up. It cannot act: Tools denies all actions,
// unless the person has allowed some, so what is left is to tell and to propose.
//
// # The answer
//
// Where nothing is worth telling, the model answers with one word (Silence), and nothing is delivered
// (Answer). Otherwise the user gets one short message. The places that it is about are added by Steward and
// not by the model: those of the changes that the message cites by their numbers.
//
// # The mark
//
// How far a job has looked is its mark (record.Job.Seen): a time, and what each source wants to know the
// next time. It moves in the commit that ends the occurrence, or that records that nothing had changed. So
// after a crash, or when a model did not answer, the same changes are looked at again, and what has been
// told is not told again.
//
// # The caps
//
// All jobs of a user together may make only so many model calls in a day and spend only so much (Caps).
// What they have spent is kept with the jobs (record.Job.Today), so it outlives a restart. When it is
// spent, they do not look, and what happens meanwhile is told the day after.
package heartbeat

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/fault"
	"steward/internal/record"
)

// Limits of a look.
const (
	MaxChanges = 40   // of all sources together
	MaxOf      = 15   // of one source
	MaxText    = 300  // bytes, of a change
	MaxSeen    = 8000 // bytes that a source may keep

	maxURI   = 600              // bytes
	lookTime = 30 * time.Second // of one source
)

// Change is something that has changed for a user.
type Change struct {
	Source string    `json:"source"` // the name of the source
	At     time.Time `json:"at"`
	Text   string    `json:"text"`         // may be written by others
	URI    string    `json:"uri,omitzero"` // what it is about
}

// Window is what a source is asked about.
type Window struct {
	User  string
	Zone  *time.Location
	Since time.Time // exclusive
	Until time.Time // now
	Seen  string    // what the source has kept the last time; empty: nothing

	// What is due after the first time, and not after the second one, is told now: the heartbeat looks half
	// an hour ahead, and a review until the next one.
	DueAfter, DueUntil time.Time
}

// Found is what a source says.
type Found struct {
	Changes []Change // the most important first; Source is set by Look
	More    int      // how many others there are
	Seen    string   // what it wants to know the next time, at most MaxSeen bytes
}

// Source finds out without a model what has changed for a user. Look is bounded in what it reads, ends with
// ctx, and returns each change in one window only.
type Source struct {
	Name string // in words, such as "failed work"
	Look func(ctx context.Context, w Window) (Found, error)
}

// Since makes a source of a function that returns what has changed since a time.
func Since(name string, changes func(ctx context.Context, user string, since time.Time) ([]Change, error)) Source {
	return Source{Name: name, Look: func(ctx context.Context, w Window) (Found, error) {
		list, err := changes(ctx, w.User, w.Since)
		return Found{Changes: list}, err
	}}
}

// Digest is what a look has found.
type Digest struct {
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`
	Changes []Change  `json:"changes,omitempty"`
	More    int       `json:"more,omitzero"` // changes that are left out
}

// ReadDigest reads the digest of an occurrence.
func ReadDigest(text string) (d Digest, err error) {
	if text == "" {
		return d, nil
	}
	if err = json.Unmarshal([]byte(text), &d); err != nil {
		err = fault.New(fault.Internal, "store_broken", "what the heartbeat found cannot be read: %w", err)
	}
	return d, err
}

// mark is how far a job has looked.
type mark struct {
	At      time.Time              `json:"at"`
	Sources map[string]*sourceMark `json:"sources,omitempty"`
}

type sourceMark struct {
	At   time.Time `json:"at,omitzero"` // if it is earlier than the mark's: the source has failed since
	Seen string    `json:"seen,omitzero"`
}

// Seen is what a look leads to.
type Seen struct {
	Digest Digest
	Mark   string   // becomes record.Job.Seen
	Failed []string // the names of sources that could not look
}

// Look asks the sources what has changed since a job last looked. It fails only if ctx is done, or the job's
// mark cannot be read.
func Look(ctx context.Context, j *record.Job, sources []Source, now time.Time) (Seen, error) {
	now = now.UTC()
	before := mark{At: j.Start}
	if j.Seen != "" {
		if err := json.Unmarshal([]byte(j.Seen), &before); err != nil {
			return Seen{}, fault.New(fault.Internal, "store_broken", "the job %s does not know how far it has looked: %w", j.Name, err).
				WithHint("turn the heartbeat off and on again")
		}
	}
	zone, err := time.LoadLocation(j.Zone)
	if err != nil {
		zone = time.UTC
	}
	ahead := aheadOf[j.Kind]
	after := mark{At: now, Sources: map[string]*sourceMark{}}
	out := Seen{Digest: Digest{Since: before.At, Until: now}}
	for _, s := range sources {
		m := sourceMark{}
		if old := before.Sources[s.Name]; old != nil {
			m = *old
		}
		if m.At.IsZero() {
			m.At = before.At
		}
		due := m.At // what was due before the first look ahead is told too
		if j.Seen != "" {
			due = due.Add(ahead)
		}
		found, err := look(ctx, s, Window{User: j.User, Zone: zone, Since: m.At, Until: now, Seen: m.Seen, DueAfter: due, DueUntil: now.Add(ahead)})
		if ctx.Err() != nil {
			return Seen{}, ctx.Err()
		}
		if err != nil {
			out.Failed = append(out.Failed, s.Name+" ("+cmp.Or(fault.Of(err).Code, "failed")+")")
			after.Sources[s.Name] = &m
			continue
		}
		if found.Seen != "" {
			after.Sources[s.Name] = &sourceMark{Seen: found.Seen}
		}
		out.Digest.add(s.Name, found)
	}
	slices.SortStableFunc(out.Digest.Changes, func(a, b Change) int { return a.At.Compare(b.At) })
	out.Mark = string(record.Encode(after))
	return out, nil
}

// aheadOf is how far each kind of job looks ahead.
var aheadOf = map[string]time.Duration{record.KindHeartbeat: 30 * time.Minute, record.KindDaily: 24 * time.Hour, record.KindWeekly: 7 * 24 * time.Hour, record.KindMonthly: 31 * 24 * time.Hour}

// look asks one source, within its time.
func look(ctx context.Context, s Source, w Window) (Found, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found, err := s.Look(ctx, w)
	if err == nil && len(found.Seen) > MaxSeen {
		err = fault.New(fault.TooLarge, "heartbeat_source", "the source %q keeps %d bytes; the limit is %d", s.Name, len(found.Seen), MaxSeen)
	}
	return found, err
}

// add adds what a source has found, within the limits.
func (d *Digest) add(name string, f Found) {
	d.More += f.More
	for i, c := range f.Changes {
		if i >= MaxOf || len(d.Changes) >= MaxChanges {
			d.More += len(f.Changes) - i
			return
		}
		c.Source, c.Text = name, OneLine(c.Text, MaxText)
		if c.At = c.At.UTC(); len(c.URI) > maxURI {
			c.URI = ""
		}
		d.Changes = append(d.Changes, c)
	}
}

// Empty reports whether nothing has changed.
func (d *Digest) Empty() bool { return len(d.Changes) == 0 && d.More == 0 }

// OneLine writes a text in one line of at most so many bytes.
func OneLine(text string, most int) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "\uFFFD")
	if len(text) <= most {
		return text
	}
	text = text[:most-len("…")]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + "…"
}

// Caps bound what all jobs of a user may spend in a day together. Zero: no cap.
type Caps struct {
	Calls int     // of models
	Cost  float64 // US dollars
}

// Left is what may still be spent.
type Left struct {
	Calls int     // 0: no cap
	Cost  float64 // 0: no cap
	None  bool    // a cap is reached
}

// Left returns what may still be spent at a time, after what the jobs of a user have spent that day.
func (c Caps) Left(list []record.Job, now time.Time) Left {
	calls, cost := Spent(list, now)
	out := Left{}
	if c.Calls > 0 {
		out.Calls = max(c.Calls-calls, 0)
		out.None = out.Calls == 0
	}
	if c.Cost > 0 {
		out.Cost = max(c.Cost-cost, 0)
		out.None = out.None || out.Cost == 0
	}
	return out
}

// Spent returns what the jobs with a Kind have spent on the day of a time.
func Spent(list []record.Job, now time.Time) (calls int, cost float64) {
	for i := range list {
		if list[i].Kind == "" {
			continue
		}
		n, c := list[i].Today.Spent(date(&list[i], now))
		calls, cost = calls+n, cost+c
	}
	return calls, cost
}

// date returns the date of a time in the zone of a job.
func date(j *record.Job, t time.Time) string {
	zone, err := time.LoadLocation(j.Zone)
	if err != nil {
		zone = time.UTC
	}
	return t.In(zone).Format(time.DateOnly)
}

// Covered reports whether a review is left out on a day, because a longer one is due on that day.
func Covered(j *record.Job, list []record.Job, now time.Time) bool {
	zone, err := time.LoadLocation(j.Zone)
	if err != nil {
		zone = time.UTC
	}
	day := now.In(zone)
	active := func(kind string) bool {
		return slices.ContainsFunc(list, func(x record.Job) bool { return x.Kind == kind && x.State == record.JobActive })
	}
	switch j.Kind {
	case record.KindDaily:
		return active(record.KindWeekly) && day.Weekday() == reviewDay || active(record.KindMonthly) && day.Day() == 1
	case record.KindWeekly:
		return active(record.KindMonthly) && day.Day() == 1
	}
	return false
}

// reviewDay is the day of the weekly review.
const reviewDay = time.Monday

// line writes a change for the model and for people.
func (c *Change) line(n int, zone *time.Location) string {
	text := fmt.Sprintf("[%d] %s, %s: %s", n, c.At.In(zone).Format("Mon 2 Jan 15:04"), c.Source, c.Text)
	if c.URI != "" {
		text += " <" + c.URI + ">"
	}
	return text
}
