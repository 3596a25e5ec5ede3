package settings

// Ollama is a server for programs that use Ollama's API.
type Ollama struct {
	Listen string   `yaml:"listen" form:"listen" doc:"Address of the server, such as 0.0.0.0:11434. Empty: it is off."`
	Peers  []string `yaml:"peers" form:"peer" doc:"Addresses and networks that may use it, such as 192.168.1.20 or 192.168.1.0/24. The protocol has no credential; others are refused."`
	User   string   `yaml:"user" doc:"The user as whom all of them speak. Nothing is approved there."`
}

// Wyoming is a server for the voice of Home Assistant.
type Wyoming struct {
	Listen string   `yaml:"listen" form:"listen" doc:"Address of the server, such as 0.0.0.0:10500. Empty: it is off."`
	Peers  []string `yaml:"peers" form:"peer" doc:"Addresses and networks that may use it, such as 192.168.1.20 or 192.168.1.0/24. The protocol has no credential; others are refused."`
	User   string   `yaml:"user" doc:"The user as whom all of them speak. Nothing is approved there."`
	Agent  string   `yaml:"agent" doc:"The path of the agent that answers; by default the assistant."`
	Hidden bool     `yaml:"hidden" doc:"Do not announce the server on the local network by mDNS, where Home Assistant finds it."`
	Model  string   `yaml:"model" form:"model" doc:"The model that answers, as provider/model or an alias; by default the agent's."`
}
