package record

import (
	"encoding/json"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/resource"
)

// TypeAlarm is the type of alarms.
const TypeAlarm = "jobs.Alarm"

// StateDue is the state of an alarm that will go off.
const StateDue = "due"

// Alarm is something that is due at a time, once or again and again. It belongs to a user.
type Alarm struct {
	ID           id.ID          `json:"id"`
	User         string         `json:"user"`
	Conversation id.ID          `json:"conversation,omitzero"` // where it was set, and is told
	Kind         string         `json:"kind"`                  // the first word of the tools that set it: "reminder", "timer"
	Text         string         `json:"text"`
	Labels       message.Labels `json:"labels,omitzero"` // of the text
	Created      time.Time      `json:"created"`
	Start        time.Time      `json:"start"`            // the first occurrence
	Rule         string         `json:"rule,omitzero"`    // how it repeats: an RRULE of RFC 5545 without DTSTART; empty: once
	Zone         string         `json:"zone,omitzero"`    // IANA name; the rule counts days and hours there
	Next         time.Time      `json:"next,omitzero"`    // the next occurrence; zero: there is none any more
	Fired        int            `json:"fired,omitzero"`   // how many occurrences have passed, told or missed
	Ended        string         `json:"ended,omitzero"`   // why there is no next one: "over", "cancelled", or an error code
	Changed      id.ID          `json:"changed,omitzero"` // derived from the key of the call that cancelled it
}

// AlarmURI returns the URI of an alarm.
func AlarmURI(alarm id.ID) resource.URI { return resource.URI{}.ChildID(TypeAlarm, alarm) }

// DecodeAlarm reads a stored alarm.
func DecodeAlarm(at resource.URI, body []byte) (a Alarm, err error) {
	if err := json.Unmarshal(body, &a); err != nil {
		return a, fault.New(fault.Internal, "store_broken", "%s: the alarm cannot be read: %w", at, err)
	}
	return a, nil
}
