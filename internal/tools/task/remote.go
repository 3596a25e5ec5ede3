package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/internal/tools/dav"
)

// remote is a user's to-do lists on servers (VTODO in RFC 5545).
type remote struct {
	dav.Book
	zone *time.Location
	now  func() time.Time
}

const report = `<c:calendar-query xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><d:prop><d:getetag/><c:calendar-data/></d:prop><c:filter><c:comp-filter name="VCALENDAR"><c:comp-filter name="VTODO"/></c:comp-filter></c:filter></c:calendar-query>`

// All implements store. Open tasks come first, those that are due soonest before others.
func (r *remote) All(ctx context.Context) (all []Task, err error) {
	lists, _, err := r.Accounts.Find(ctx, r.User, dav.Tasks, "")
	if err != nil {
		return nil, err
	}
	for _, l := range lists {
		objects, err := l.Query(ctx, report)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			pieces := dav.Split(o.Text, ical.CompToDo)
			if c := todo(pieces); c != nil {
				all = append(all, r.task(c, dav.ZonesIn(pieces, r.zone), l.Name, o))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Task) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(cmp.Or(a.Due, "9999"), cmp.Or(b.Due, "9999")), cmp.Compare(a.Title, b.Title))
	})
	for i := range all {
		all[i].Number = i + 1
	}
	return all, ctx.Err()
}

func rank(t Task) int { return map[bool]int{true: 1}[t.Done] }

// todo returns the task of an object.
func todo(pieces []dav.Piece) *ical.Component {
	for _, p := range pieces {
		if p.Comp != nil {
			return p.Comp
		}
	}
	return nil
}

func (r *remote) task(c *ical.Component, zones *dav.Zones, list string, o dav.Object) Task {
	t := Task{Title: strings.Join(strings.Fields(cmp.Or(dav.TextOf(c, ical.PropSummary), "(no title)")), " "), List: list, object: &o}
	status := strings.ToUpper(dav.TextOf(c, ical.PropStatus))
	t.Done = status == "COMPLETED" || status == "CANCELLED" || c.Props.Get(ical.PropCompleted) != nil
	if p := c.Props.Get(ical.PropDue); p != nil {
		if at, err := dav.Moment(p, p.Value, zones); err == nil { // a task whose date is broken has none
			t.Due = at.In(r.zone).Format(time.DateOnly)
		}
	}
	return t
}

// apply implements store.
func (r *remote) apply(ctx context.Context, e edit) (string, error) {
	change := dav.Edit{What: fmt.Sprintf("the task %q", e.task.Title), Reply: e.reply}
	var err error
	switch e.do {
	case add:
		change.Object, change.After, err = r.fresh(ctx, e)
	case complete:
		change.Object = *e.task.object
		change.After, err = r.completed(change.Text)
	case remove:
		change.Object = *e.task.object
	}
	if err != nil {
		return "", tool.NotDone(err)
	}
	return r.Do(ctx, e.key, change)
}

// fresh returns a new task and its place.
func (r *remote) fresh(ctx context.Context, e edit) (o dav.Object, text string, err error) {
	lists, _, err := r.Accounts.Find(ctx, r.User, dav.Tasks, e.task.List)
	if err != nil {
		return o, "", err
	}
	l, err := dav.ForNew(lists)
	if err != nil {
		return o, "", err
	}
	c := ical.NewComponent(ical.CompToDo)
	c.Props.SetText(ical.PropUID, keyID(e.key))
	c.Props.SetDateTime(ical.PropDateTimeStamp, r.now().UTC())
	c.Props.SetText(ical.PropSummary, dav.Plain(e.task.Title))
	c.Props.SetText(ical.PropStatus, "NEEDS-ACTION")
	if at, err := time.Parse(time.DateOnly, e.task.Due); err == nil { // it was checked; there may be none
		c.Props.SetDate(ical.PropDue, at)
	}
	text, _, err = dav.Encode(c)
	return l.New(keyID(e.key)+".ics", ""), text, err
}

// completed returns an object's text with its task completed. Its other lines stay as they are.
func (r *remote) completed(text string) (string, error) {
	var b strings.Builder
	for _, p := range dav.Split(text, ical.CompToDo) {
		if c := p.Comp; c != nil {
			if c.Props.Get(ical.PropRecurrenceRule) != nil {
				return "", fault.New(fault.Unsupported, "task_repeats", "the task repeats, and cannot be completed here").WithHint("complete it in another program")
			}
			now := r.now().UTC()
			c.Props.SetText(ical.PropStatus, "COMPLETED")
			all := ical.NewProp(ical.PropPercentComplete)
			all.Value = "100"
			c.Props.Set(all)
			for _, name := range []string{ical.PropCompleted, ical.PropLastModified, ical.PropDateTimeStamp} {
				c.Props.SetDateTime(name, now)
			}
			var err error
			if _, p.Raw, err = dav.Encode(c); err != nil {
				return "", err
			}
		}
		b.WriteString(p.Raw)
	}
	return b.String(), nil
}
