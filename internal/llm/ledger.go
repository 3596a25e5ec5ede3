package llm

import (
	"maps"
	"sync"
	"time"
)

// DayLedger records what each user has spent today, in memory. It drops earlier days. After a start,
// Load restores what was spent before. It is safe for concurrent use.
type DayLedger struct {
	zone  func(user string) *time.Location
	mu    sync.Mutex
	users map[string]*day
	sweep int // the number of users at which finished days are dropped
}

type day struct {
	start, end time.Time
	spent      Spend
}

// NewDayLedger returns an empty ledger. zone returns a user's time zone, in which the user's day
// begins. If zone or its result is nil, UTC is used.
func NewDayLedger(zone func(user string) *time.Location) *DayLedger {
	return &DayLedger{zone: zone, users: map[string]*day{}, sweep: 1024}
}

// Spent returns what the user has spent on the day that contains at, reservations included, and when
// that day ends.
func (l *DayLedger) Spent(user string, at time.Time) (Spend, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.day(user, at); d != nil {
		return d.spent, d.end
	}
	_, end := l.bounds(user, at)
	return Spend{}, end
}

// Add adds to what the user has spent on the day that contains at. A negative amount releases what
// was reserved and not used.
func (l *DayLedger) Add(user string, at time.Time, s Spend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.day(user, at); d != nil {
		d.spent = d.spent.Add(s)
	}
}

// Load adds what was spent before this start, in any order. It ignores days other than the current one.
func (l *DayLedger) Load(user string, at time.Time, s Spend) {
	if start, end := l.bounds(user, time.Now()); !at.Before(start) && at.Before(end) {
		l.Add(user, at, s)
	}
}

// Forget drops what a user has spent, before it is loaded again: another node may have worked for the user
// meanwhile. No call of the user's may be running.
func (l *DayLedger) Forget(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.users, user)
}

// day returns the user's day that contains at, and starts it if it is new. It returns nil for a day
// that is over.
func (l *DayLedger) day(user string, at time.Time) *day {
	d := l.users[user]
	if d != nil && at.Before(d.start) {
		return nil
	}
	if d == nil || !at.Before(d.end) {
		if len(l.users) >= l.sweep {
			maps.DeleteFunc(l.users, func(_ string, d *day) bool { return !at.Before(d.end) })
			l.sweep = 1024 + 2*len(l.users)
		}
		start, end := l.bounds(user, at)
		d = &day{start: start, end: end}
		l.users[user] = d
	}
	return d
}

func (l *DayLedger) bounds(user string, at time.Time) (start, end time.Time) {
	loc := time.UTC
	if l.zone != nil {
		if z := l.zone(user); z != nil {
			loc = z
		}
	}
	y, m, d := at.In(loc).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, loc), time.Date(y, m, d+1, 0, 0, 0, 0, loc)
}
