package settings

// Web says how tools reach the web.
type Web struct {
	Off    bool      `yaml:"off" doc:"Offer no tools for the web."`
	Hosts  []string  `yaml:"hosts" form:"host_port" doc:"Hosts of your own network whose pages may be read, as HOST:PORT. Public hosts need no entry."`
	Search WebSearch `yaml:"search" doc:"The search engine."`
}

// WebSearch is the search engine.
type WebSearch struct {
	Engine string `yaml:"engine" oneof:"duckduckgo,searxng,brave,tavily,exa,mcp" doc:"Which one is asked. DuckDuckGo needs no key; mcp is a tool of one of your MCP servers."`
	URL    string `yaml:"url" form:"url" doc:"Where it is; needed for SearXNG only."`
	Tool   string `yaml:"tool" doc:"With mcp: the tool that searches, as SERVER.TOOL."`
	Key    Secret `yaml:"key" doc:"The key, or where it is: env:NAME, file:PATH, command:PROGRAM ARGS or store:NAME (steward secrets set NAME)."`
}

// Browser is the browser with which tools use pages that scripts make.
type Browser struct {
	Off  bool   `yaml:"off" doc:"Offer no tools that use a browser."`
	Path string `yaml:"path" form:"path" doc:"Where Chromium is. Empty: where distributions install it. Without Chromium there are no such tools."`
}
