package settings

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"steward/internal/fault"
	"steward/internal/strict"
)

// Right says who may change a setting through the API, while Steward runs.
type Right string

// The rights. What could start a program, name a key, or open Steward to others is changed only in the files of
// the machine.
const (
	ByNobody Right = ""      // only in the settings file
	ByAdmin  Right = "admin" // any administrator
	ByOwner  Right = "owner" // the machine's own user, because it concerns that user's own files and messages
)

// RightOf returns who may change a setting.
func RightOf(key string) Right {
	if slices.Contains([]string{"workspace", "notify.ntfy.topic", "approve"}, key) {
		return ByOwner
	}
	group, _, below := strings.Cut(key, ".")
	if !below {
		group = ""
	}
	if key == "routing" || slices.Contains([]string{"limits", "embed", "keep", "heartbeat", "plans", "memory", "tools", "log", "timeouts"}, group) ||
		slices.Contains([]string{"profile.time_zone", "profile.location", "profile.locale", "profile.units", "weather.off"}, key) {
		return ByAdmin
	}
	return ByNobody
}

// AtOnce reports whether a change of a setting is in force as soon as it is written. Others take effect at the next start.
func AtOnce(key string) bool {
	for _, live := range []string{"providers.", "models.", "prices.", "windows.", "limits.tokens", "limits.cost", "limits.day_tokens", "limits.day_cost", "limits.users.", "timeouts.first_byte", "timeouts.idle"} {
		if key == live || strings.HasSuffix(live, ".") && strings.HasPrefix(key, live) {
			return true
		}
	}
	return false
}

// UserLimit returns the key of a limit of one user, such as day_cost.
func UserLimit(user, limit string) string { return join("limits.users", user) + "." + limit }

// Setting checks a value that a person has typed, and returns the change of a file that sets it. Error codes:
// setting_unknown, setting_invalid.
func Setting(key, value string) (Change, error) {
	unknown := fault.New(fault.NotFound, "setting_unknown", "there is no setting %.80q", key).WithHint("steward config show lists them")
	t, r := reflect.TypeFor[Settings](), rules{}
	for _, part := range splitKey(key) {
		if t.Kind() == reflect.Map {
			if why := check(r.names, part); why != "" {
				return Change{}, badSetting(key, fmt.Sprintf("%q %s", strict.Clip(part), why))
			}
			t = t.Elem()
			continue
		}
		if t.Kind() != reflect.Struct || isLeaf(t) {
			return Change{}, unknown
		}
		f, ok := fieldByKey(t, part)
		if !ok {
			return Change{}, unknown
		}
		t, r = f.Type, rulesOf(f)
	}
	c := Change{Key: key, Value: strings.TrimSpace(value)}
	switch {
	case !isLeaf(t) || t.Kind() == reflect.Slice || t == reflect.TypeFor[Secret]():
		return Change{}, unknown
	case c.Value == "" && t.Kind() != reflect.String:
		return Change{}, badSetting(key, "it needs a value: "+typeOf(t, r))
	case c.Value == "" && r.oneof != "":
		return Change{}, badSetting(key, "choose one of "+typeOf(t, r))
	case strings.ContainsAny(c.Value, "\r\n"):
		return Change{}, badSetting(key, "it must be one line")
	}
	v, why := parse(c.Value, t, r)
	if why != "" {
		return Change{}, badSetting(key, why)
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case isDuration(t):
	case v.Kind() == reflect.Bool:
		c.Word, c.Value = true, strconv.FormatBool(v.Bool())
	case v.CanInt():
		c.Word, c.Value = true, strconv.FormatInt(v.Int(), 10)
	case v.CanFloat():
		c.Word, c.Value = true, strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	return c, nil
}

func badSetting(key, why string) error {
	return fault.New(fault.Invalid, "setting_invalid", "%s: %s", key, why)
}
