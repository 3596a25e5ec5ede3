package home

import (
	"cmp"
	"context"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/tools/local"
)

// Limits of states that are followed.
const (
	maxBehind   = 64 // changes of an entity that wait; of more, the newest count
	maxWatchers = 1000
)

// Condition is a state of an entity: "light.hall=on", "sensor.hall_temperature>25".
type Condition struct {
	Entity string
	Op     string // =, !=, <, <=, > or >=
	Value  string
}

var conditionForm = regexp.MustCompile(`^([a-z0-9_]+\.[a-z0-9_]+)\s*(=|!=|<=|>=|<|>)\s*(.*)$`)

// ParseCondition reads a condition. Error code: condition_invalid.
func ParseCondition(text string) (Condition, error) {
	m := conditionForm.FindStringSubmatch(strings.TrimSpace(text))
	bad := func(why string) (Condition, error) {
		return Condition{}, fault.New(fault.Invalid, "condition_invalid", "the state %.100q cannot be read: %s", text, why).
			WithHint("write it as light.hall=on or sensor.hall_temperature>25")
	}
	if m == nil {
		return bad("it is not an entity, an operator (=, !=, <, <=, >, >=) and a value")
	}
	c := Condition{m[1], m[2], strings.TrimSpace(m[3])}
	if _, err := strconv.ParseFloat(c.Value, 64); c.Value == "" || err != nil && c.Op != "=" && c.Op != "!=" {
		return bad("a value is missing, or is no number")
	}
	return c, nil
}

// holds reports whether a state fulfils the condition. known is false if the state says nothing, for example
// because the device cannot be reached at the moment.
func (c Condition) holds(s string) (holds, known bool) {
	if (s == "unavailable" || s == "unknown" || s == "") && c.Value != s {
		return false, false
	}
	switch c.Op {
	case "=":
		return strings.EqualFold(s, c.Value), true
	case "!=":
		return !strings.EqualFold(s, c.Value), true
	}
	have, err := strconv.ParseFloat(s, 64)
	want, wrong := strconv.ParseFloat(c.Value, 64)
	if err != nil || wrong != nil {
		return false, false
	}
	switch c.Op {
	case "<":
		return have < want, true
	case "<=":
		return have <= want, true
	case ">":
		return have > want, true
	}
	return have >= want, true
}

// Entry is a state that has come to fulfil a condition (Entered), or no longer does.
type Entry struct {
	Entered bool
	Name    string // of the device
	State   string
	Cursor  string
}

// CanWatch returns an error if a condition names no exposed device. It connects.
func (h *Home) CanWatch(ctx context.Context, c Condition) error {
	conn, err := h.connected(ctx)
	if err != nil {
		return err
	}
	if _, ok := conn.current(c.Entity); !ok {
		return notExposed(c.Entity)
	}
	return nil
}

func notExposed(entity string) error {
	return fault.New(fault.NotFound, "home_not_exposed", "Home Assistant exposes no device %s", entity).
		WithHint("check the entity id, and expose it in Home Assistant under Settings, Voice assistants, Expose")
}

// Watch yields when a condition comes true, and when it stops being true, until ctx is done. It stays connected.
// While there is no connection nothing is reported; after it, the state is compared with the last known one, so
// that what came true meanwhile is reported once. cursor is what was known before; empty: what holds now counts
// as known. A device that is unavailable changes nothing.
func (h *Home) Watch(ctx context.Context, c Condition, cursor string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		news, stop, err := h.listen(c.Entity)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer stop()
		look := func(s state) bool {
			is, known := c.holds(s.State)
			now := strconv.FormatBool(is)
			if !known || now == cursor {
				return true
			}
			first := cursor == ""
			cursor = now
			return yield(Entry{Entered: is && !first, Name: cmp.Or(local.Line(textOf(s.Attributes["friendly_name"]), 100), s.ID), State: s.State, Cursor: now}, nil)
		}
		for ctx.Err() == nil {
			conn, err := h.connected(ctx)
			if err != nil {
				fault.Pause(ctx, 30*time.Second)
				continue
			}
			now, ok := conn.current(c.Entity)
			if !ok {
				yield(Entry{}, notExposed(c.Entity))
				return
			}
			if !look(now.state) {
				return
			}
			for connected := true; connected; {
				select {
				case s := <-news:
					if !s.Changed.Before(now.Changed) && !look(s) { // what waited may be older
						return
					}
				case <-conn.done:
					connected = false
				case <-ctx.Done():
					return
				}
			}
		}
	}
}

func textOf(v any) string {
	s, _ := v.(string)
	return s
}

// listen returns the changes of an entity, as they are read, until stop is called.
func (h *Home) listen(entity string) (news <-chan state, stop func(), err error) {
	to := make(chan state, maxBehind)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watched >= maxWatchers {
		return nil, nil, fault.New(fault.Exhausted, "home_watchers", "too many states of the home are followed")
	}
	h.watched++
	if h.watchers == nil {
		h.watchers = map[string][]chan state{}
	}
	h.watchers[entity] = append(h.watchers[entity], to)
	return to, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.watched--
		h.watchers[entity] = slices.DeleteFunc(h.watchers[entity], func(c chan state) bool { return c == to })
		if len(h.watchers[entity]) == 0 {
			delete(h.watchers, entity)
		}
	}, nil
}

// tell passes a change on to those who follow the entity.
func (h *Home) tell(s state) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, to := range h.watchers[s.ID] {
		for sent := false; !sent; {
			select {
			case to <- s:
				sent = true
			default:
				select {
				case <-to: // the oldest
				default:
				}
			}
		}
	}
}
