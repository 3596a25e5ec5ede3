package tool

import "strings"

// aliases are further names under which agents and lists of tools may name Steward's tools. An alias
// counts only where no tool has that name.
var aliases = map[string]string{
	"calendar":                    "calendar.*",
	"calendar.create_event":       "calendar.add",
	"calendar.list_events":        "calendar.list",
	"create_goal":                 "goal.create",
	"list_goals":                  "goal.list",
	"memory":                      "memory.*",
	"notification":                "notify.*",
	"notification.*":              "notify.*",
	"planning.create_goal":        "goal.create",
	"planning.list_goals":         "goal.list",
	"planning.record_progress":    "goal.progress",
	"record_progress":             "goal.progress",
	"save_memory":                 "memory.save",
	"search_similar_content":      "conversation.similar",
	"search":                      "web.*",
	"search.*":                    "web.*",
	"search_memories":             "memory.search",
	"search.web_search":           "web.search",
	"smart_home":                  "home.*",
	"smart_home.*":                "home.*",
	"smart_home.control_device":   "home.control",
	"smart_home.get_device_state": "home.state",
	"smart_home.list_devices":     "home.list",
	"timer":                       "timer.*",
	"weather":                     "weather.*",
	"weather.get_current":         "weather.forecast",
	"weather.get_current_weather": "weather.forecast",
	"weather.get_forecast":        "weather.forecast",
}

// Alias returns the name or glob that an alias stands for.
func Alias(pattern string) (real string, ok bool) {
	real, ok = aliases[pattern]
	return real, ok
}

// Knows reports whether Select finds no fault with a pattern: it is a glob, or names a tool that is there
// by its name or by an alias.
func (r *Registry) Knows(pattern string) bool {
	glob := strings.TrimPrefix(pattern, "!")
	if glob != pattern || IsGlob(glob) {
		return true
	}
	if _, ok := r.Get(glob); ok {
		return true
	}
	real, ok := aliases[glob]
	return ok && r.Knows(real)
}
