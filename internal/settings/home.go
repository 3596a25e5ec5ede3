package settings

// Home is the home that Home Assistant runs.
type Home struct {
	URL    string   `yaml:"url" form:"url" doc:"Address of Home Assistant, such as http://homeassistant.local:8123."`
	Token  Secret   `yaml:"token" doc:"A long-lived access token of Home Assistant, or where it is: env:NAME, file:PATH, command:PROGRAM ARGS or store:NAME (steward secrets set NAME)."`
	Ask    []string `yaml:"ask" doc:"Entity ids of further devices about which you want to be asked each time, as about locks: such as switch.shelly_1, which opens a gate."`
	Users  []string `yaml:"users" doc:"Users who may use the home; * stands for all users. Without users and groups, only the machine's own user may."`
	Groups []string `yaml:"groups" doc:"Groups whose members may use the home."`
}
