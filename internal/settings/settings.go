// Package settings determines the effective settings. They come from defaults, the user's file,
// the project's file, the environment and flags; each source overrides the ones before it, and
// each value remembers where it came from. Files are read strictly: all their faults are reported
// at once, with line, column and remedy.
//
// The struct Settings is the only table: a field and its tags are the key, its type, its check,
// its documentation, and the name of its environment variable. Decoding, the reference in
// docs/reference/settings.md and steward config show all walk this struct.
package settings

import (
	"log/slog"
	"time"

	"steward/internal/secret"
)

// Settings are the effective settings. The struct is also the schema: the tags name each key and
// say what it means and which values it takes.
//
//	yaml    the key
//	doc     one sentence for docs/reference/settings.md, which fills in {providers} and {tools}
//	min,max bounds of a number or duration, inclusive
//	oneof   the allowed words
//	form    a check by name, see forms
//	names   what the keys of a map must look like, see forms
//	short   on a struct's field: a bare value stands for this field alone
//	project what a project's file may do, which may have come with a cloned repository: "yes": set it;
//	        "less": only lower it; without this tag: nothing. Only what is harmless has it, and
//	        never what enters a prompt or names a model, a command, a key, a host or a folder
type Settings struct {
	Listen     string              `yaml:"listen" form:"listen" doc:"Address of the server."`
	Data       string              `yaml:"data" form:"path" doc:"Folder of the database and everything else that Steward stores."`
	Store      Secret              `yaml:"store" doc:"Address of a PostgreSQL database in which everything is kept that is not a node's own: postgres://ROLE:PASSWORD@HOST/DATABASE, or where it is: env:NAME, file:PATH, command:PROGRAM ARGS or store:NAME. Empty: SQLite, in the data folder."`
	StoreOwner Secret              `yaml:"store_owner" doc:"The same for the role that owns the tables, which makes them and brings them up to date at the start. Only needed then."`
	Cluster    Cluster             `yaml:"cluster" doc:"Several nodes that work on one store (docs/operations/cluster.md)."`
	Hosts      []string            `yaml:"hosts" form:"host" doc:"Host names, besides loopback and the listening address, under which the server may be reached."`
	Origins    []string            `yaml:"origins" form:"origin" doc:"Web origins, besides the server's own, whose pages may talk to it."`
	Open       []string            `yaml:"open" oneof:"/v1/chat/completions,/v1/responses,/v1/models,/v1/embeddings" doc:"Paths that any program on this machine may use without a credential, to ask models. It reads no conversation and decides nothing."`
	Providers  map[string]Provider `yaml:"providers" names:"provider" doc:"Those that are known by name ({providers}), and other servers that speak OpenAI's protocol, under names of your own."`
	ModelsURL  string              `yaml:"models_url" form:"file_url" doc:"Where steward models update fetches prices, windows and abilities of models."`
	Models     map[string]Alias    `yaml:"models" names:"alias" doc:"Names for models: default, fast, strong and embed are used by Steward, others are yours."`
	Embed      Embed               `yaml:"embed" doc:"Vectors of messages, by which search finds what other words say."`
	Limits     Limits              `yaml:"limits" doc:"Limits of one turn and one user; 0 means no limit."`
	Prices     map[string]Price    `yaml:"prices" names:"model" doc:"Prices of models in US dollars per million tokens, which override the built-in ones."`
	Windows    map[string]int      `yaml:"windows" names:"model" min:"1024" max:"100000000" doc:"Context windows of models in tokens, which override those that Steward knows. Conversations are fitted to them."`
	Keep       Keep                `yaml:"keep" doc:"How long Steward keeps things."`
	Backup     Backup              `yaml:"backup" doc:"Backups of the data folder that Steward makes by itself."`
	Audit      Audit               `yaml:"audit" doc:"What is recorded besides changes."`
	Workspace  string              `yaml:"workspace" form:"workspace" doc:"Folder in which Steward reads and writes files for you, made at its first use: an absolute path, one that begins with ~/, or off."`
	Folders    []Folder            `yaml:"folders" doc:"Folders that the files tools may use."`
	Documents  Documents           `yaml:"documents" doc:"Documents that are found by searches."`
	Shell      Shell               `yaml:"shell" doc:"Commands and code that Steward runs in the workspace."`
	Web        Web                 `yaml:"web" doc:"Pages of the web and the search for them."`
	Browser    Browser             `yaml:"browser" doc:"Pages that need a real browser."`
	Weather    Weather             `yaml:"weather" doc:"Forecasts."`
	Heartbeat  Heartbeat           `yaml:"heartbeat" doc:"How Steward speaks up by itself, once you have turned that on (steward heartbeat on)."`
	Plans      Plans               `yaml:"plans" doc:"How plans are carried out."`
	Memory     Memory              `yaml:"memory" doc:"What Steward remembers about you beyond a conversation."`
	Notify     Notify              `yaml:"notify" doc:"How Steward reaches you outside of a chat."`
	Home       Home                `yaml:"home" doc:"The home that Home Assistant runs."`
	Channels   map[string]Channel  `yaml:"channels" names:"word" doc:"Accounts at messengers in which people reach Steward, each under a name of yours. steward channels add sets one up."`
	Mail       map[string]Mail     `yaml:"mail" names:"word" doc:"Mailboxes, each under a name of yours."`
	Calendars  map[string]Calendar `yaml:"calendars" names:"word" doc:"Calendars and to-do lists at servers (CalDAV), each account under a name of yours. Without any, they are files of Steward's own."`
	Contacts   map[string]Contacts `yaml:"contacts" names:"word" doc:"Address books at servers (CardDAV), each account under a name of yours."`
	OAuth      map[string]OAuth    `yaml:"oauth" names:"word" doc:"Services that accounts are connected to with OAuth: google, microsoft, and others."`
	Tools      Tools               `yaml:"tools" doc:"Limits of tool calls."`
	Routing    string              `yaml:"routing" oneof:"auto,always,off" doc:"Whether a message that names no agent goes to the agent that it is for: by its words, and once you have agents of your own also by the fast model (auto); by the fast model in any case (always); or to the assistant (off). When messages are routed, a request of several steps is also offered as a plan."`
	Approve    string              `yaml:"approve" oneof:"actions,unfixed" doc:"Which actions need your approval: every action that changes something (actions), or only those that your own words, or a plan made of them, had not fixed before anything of others was read (unfixed). Your own policies may decide otherwise."`
	Agents     []string            `yaml:"agents" form:"path" doc:"Folders of agents, besides agents in the data folder. You approve each agent once."`
	MCP        []string            `yaml:"mcp" form:"path" doc:"JSON files with mcpServers, besides mcp.json in the data folder. You approve each server once."`
	Ollama     Ollama              `yaml:"ollama" doc:"A server for programs that use Ollama's API."`
	Wyoming    Wyoming             `yaml:"wyoming" doc:"A server for the voice of Home Assistant (the Wyoming protocol)."`
	Service    Service             `yaml:"service" doc:"External services that Steward calls."`
	Profile    Profile             `yaml:"profile" doc:"What Steward should know about you."`
	Log        Log                 `yaml:"log" doc:"What is written to stderr."`
	Metrics    Metrics             `yaml:"metrics" doc:"Numbers for Prometheus, at /metrics."`
	Traces     Traces              `yaml:"traces" doc:"Traces of turns for OpenTelemetry, with its conventions for generative AI."`
	Timeouts   Timeouts            `yaml:"timeouts" doc:"How long Steward waits."`
}

// Provider is an endpoint that offers models.
type Provider struct {
	BaseURL string            `yaml:"base_url" form:"url" doc:"Where its API is."`
	Key     Secret            `yaml:"key" doc:"Its API key, or where it is: env:NAME, file:PATH, command:PROGRAM ARGS or store:NAME (steward secrets set NAME). The vendor's variable overrides all but a stored one."`
	KeyEnv  string            `yaml:"key_env" form:"variable" doc:"Name of the environment variable that holds the key."`
	KeyFile string            `yaml:"key_file" form:"path" doc:"File that holds the key."`
	Dialect string            `yaml:"dialect" oneof:"responses,chat,vertex,vertex-claude,bedrock" doc:"How the server is asked: by OpenAI's responses (the default at OpenAI itself) or chat completions (elsewhere), as Gemini or Claude on Google's Vertex AI, or as Claude on Amazon's Bedrock."`
	Project string            `yaml:"project" form:"cloud" doc:"The project at Google, for Vertex; by default that of GOOGLE_CLOUD_PROJECT."`
	Region  string            `yaml:"region" form:"cloud" doc:"The region of the cloud: for Vertex global by default, for Bedrock that of AWS_REGION or us-east-1."`
	Tools   []string          `yaml:"tools" doc:"Tools that run at the provider and that the model may use beside Steward's: {tools}. What it looks up is decided there: no policy of yours sees it."`
	Stores  []string          `yaml:"vector_stores" doc:"Ids of the vector stores that file_search searches."`
	Headers map[string]string `yaml:"headers" names:"header" doc:"Header fields of each request."`
	Body    string            `yaml:"body" form:"json_object" doc:"A JSON object whose members are added to the body of each request, in place of those that are there."`
	Model   string            `yaml:"model" doc:"The provider's own name of its default model."`
	Place   string            `yaml:"place" oneof:"local,cloud" doc:"Whether requests stay on this machine and its own network (local) or not (cloud), for policies; by default derived from the address."`
	Off     bool              `yaml:"off" doc:"Do not use this provider, even if its key is in the environment."`
}

// Alias is a name for a model or a chain of models.
type Alias struct {
	Use         []string `yaml:"use" short:"use" form:"model" doc:"provider/model or another alias; of several, the next one answers if one cannot."`
	Temperature *float64 `yaml:"temperature" min:"0" max:"2" doc:"The sampling temperature."`
	MaxTokens   int      `yaml:"max_tokens" min:"0" max:"10000000" doc:"Longest answer of one call, in tokens."`
	Stop        []string `yaml:"stop" doc:"Texts at which it stops writing."`
	Effort      string   `yaml:"effort" oneof:"none,low,medium,high" doc:"How much it may think before it answers."`
}

// Limits limit one turn, and one user in a day.
type Limits struct {
	Iterations int           `yaml:"iterations" min:"1" max:"1000" project:"less" doc:"Model calls of one turn."`
	Time       time.Duration `yaml:"time" min:"1s" max:"168h" project:"less" doc:"Duration of one turn."`
	Calls      int           `yaml:"calls" min:"1" max:"1024" project:"less" doc:"Tool calls of one reply of a model that are run. Further ones are answered with an error."`
	Parallel   int           `yaml:"parallel" min:"1" max:"1024" project:"less" doc:"Tool calls of one turn that run at the same time. All turns together run at most eight times as many."`
	Tokens     int64         `yaml:"tokens" min:"0" project:"less" doc:"Tokens of one turn, in and out."`
	Cost       float64       `yaml:"cost" min:"0" project:"less" doc:"US dollars of one turn, for models with a known price."`
	DayTokens  int64         `yaml:"day_tokens" min:"0" project:"less" doc:"Tokens of one user in a day."`
	DayCost    float64       `yaml:"day_cost" min:"0" project:"less" doc:"US dollars of one user in a day."`

	Users map[string]UserLimits `yaml:"users" names:"user" doc:"Limits of single users in a day, in place of those of all users."`

	DayStorage   int64 `yaml:"day_storage" min:"0" project:"less" doc:"Bytes on the disk that one user may store in a day, with imports. The machine's own user has no limit."`
	GuestStorage int64 `yaml:"guest_storage" min:"0" project:"less" doc:"The same for a guest."`
}

// UserLimits limit one user in a day.
type UserLimits struct {
	DayTokens *int64   `yaml:"day_tokens" min:"0" doc:"Tokens of this user in a day; 0 means no limit."`
	DayCost   *float64 `yaml:"day_cost" min:"0" doc:"US dollars of this user in a day; 0 means no limit."`
}

// Price is what a model costs, in US dollars per million tokens.
type Price struct {
	Input      float64 `yaml:"input" min:"0" max:"100000" doc:"Of input tokens."`
	Output     float64 `yaml:"output" min:"0" max:"100000" doc:"Of output tokens."`
	CacheRead  float64 `yaml:"cache_read" min:"0" max:"100000" doc:"Of input tokens read from the provider's cache."`
	CacheWrite float64 `yaml:"cache_write" min:"0" max:"100000" doc:"Of input tokens written to it."`
	Search     float64 `yaml:"search" min:"0" max:"1000" doc:"Of one search of the web by the provider, in US dollars."`
}

// Keep says how long Steward keeps things.
type Keep struct {
	Deleted time.Duration `yaml:"deleted" min:"0s" max:"87600h" doc:"How long deleted data can be restored before it is erased for good."`
	Unused  time.Duration `yaml:"unused" min:"1h" max:"87600h" doc:"After this time an unused conversation is stored compressed. It reads as before."`
}

// Backup says where and how often the data folder is backed up.
type Backup struct {
	Folder     string        `yaml:"folder" form:"path" doc:"Folder, best on another disk, in which backups are made. Without it none are made."`
	Every      time.Duration `yaml:"every" min:"1h" max:"8760h" doc:"Time from one backup to the next."`
	Keep       BackupKeep    `yaml:"keep" doc:"How many backups are kept, of those that Steward makes by itself. A backup that one of these rules keeps is kept."`
	Recipients []string      `yaml:"recipients" doc:"Public keys of age (age1…) for which backups are encrypted. Without any, they are not encrypted."`
}

// BackupKeep says how many backups are kept.
type BackupKeep struct {
	Last    int `yaml:"last" min:"1" max:"1000" doc:"The newest ones."`
	Daily   int `yaml:"daily" min:"0" max:"1000" doc:"The newest one of each day that has one, for so many days."`
	Weekly  int `yaml:"weekly" min:"0" max:"1000" doc:"Likewise of weeks."`
	Monthly int `yaml:"monthly" min:"0" max:"1000" doc:"Likewise of months."`
}

// Embed is how messages get vectors.
type Embed struct {
	PerMinute int     `yaml:"per_minute" min:"1" max:"1000000" doc:"How many pieces of messages are embedded in a minute at most."`
	DayCost   float64 `yaml:"day_cost" min:"0" max:"1000" doc:"How many US dollars embeddings may cost in a day; 0 means no limit. The rest is embedded on the next day."`
}

// Audit says what is recorded besides changes.
type Audit struct {
	AnchorFile  string        `yaml:"anchor_file" form:"path" doc:"File, best on another machine's disk, to which the head of the log is appended periodically, so that steward audit verify detects changes of the log."`
	AnchorEvery time.Duration `yaml:"anchor_every" min:"1m" max:"8760h" doc:"How often the head is appended, if there are new entries."`

	Reads []string `yaml:"reads" form:"audited" doc:"Resources of which each read is recorded: types (email.Message), beginnings of types (email.*) and places (cld:…)."`
}

// Folder is a part of the file system that tools may use.
type Folder struct {
	Name  string `yaml:"name" form:"word" doc:"The name under which the model knows it."`
	Path  string `yaml:"path" form:"path" doc:"Where it is."`
	Write bool   `yaml:"write" doc:"Files may also be written, each after you have approved it."`

	Users  []string `yaml:"users" doc:"Users who may use it; * stands for all users. Without users and groups, only the machine's own user may."`
	Groups []string `yaml:"groups" doc:"Groups whose members may use it."`
}

// Documents says which folders are watched for documents.
type Documents struct {
	Folders []DocumentFolder `yaml:"folders" doc:"Folders whose documents are kept searchable. They are read again when they change."`
}

// DocumentFolder is a folder of documents.
type DocumentFolder struct {
	Path string `yaml:"path" form:"path" doc:"Where it is."`
	User string `yaml:"user" doc:"Whose documents they are. Without it, those of the machine's own user."`
	Own  bool   `yaml:"own" doc:"They are that person's own texts, so that what they say is trusted. Without it, they count as texts of others."`
}

// Heartbeat says how often Steward looks whether something has changed, and what it may spend on telling it.
type Heartbeat struct {
	Every time.Duration `yaml:"every" min:"1m" max:"24h" doc:"How often it looks whether something has changed. Looking calls no model."`
	At    string        `yaml:"at" form:"clock" doc:"The time of day of the daily, weekly and monthly reviews, such as 08:00."`
	Quiet string        `yaml:"quiet" form:"hours" doc:"Hours in which it says nothing, such as 22:00-07:00; empty: none."`
	Model string        `yaml:"model" form:"model" doc:"The model that is asked; by default that of the assistant."`
	Calls int           `yaml:"calls" min:"0" max:"10000" project:"less" doc:"Model calls of the heartbeat and the reviews of one user in a day; 0 means no limit."`
	Cost  float64       `yaml:"cost" min:"0" project:"less" doc:"US dollars that they may cost in a day; 0 means no limit."`
}

// Plans says how plans are carried out.
type Plans struct {
	AgentThreshold float64 `yaml:"agent_threshold" min:"0.1" max:"1" doc:"How sure it must be, from 0.1 to 1, that one of your agents is for a task, so that the agent gets it. Otherwise Steward designs an agent for the task."`
}

// Memory says what Steward remembers about its users beyond a conversation.
type Memory struct {
	Off    bool          `yaml:"off" doc:"Remember nothing: no fact is saved, recalled or read from conversations. Facts that are there stay until you forget them."`
	Read   bool          `yaml:"read" doc:"Read conversations that rest for facts, with the model fast. false: only what you or an agent saves is remembered."`
	Rest   time.Duration `yaml:"rest" min:"1s" max:"24h" doc:"How long a conversation rests before it is read for facts."`
	PerDay int           `yaml:"per_day" min:"1" max:"1000" project:"less" doc:"Conversations of one user that are read in a day."`
}

// Tools limits tool calls.
type Tools struct {
	Timeout   time.Duration            `yaml:"timeout" min:"100ms" max:"24h" project:"less" doc:"Time limit of a call, unless the tool has its own."`
	Timeouts  map[string]time.Duration `yaml:"timeouts" names:"tool" min:"100ms" max:"24h" doc:"Time limit of a call of the named tool."`
	ResultCap int                      `yaml:"result_cap" min:"1024" max:"1048576" project:"less" doc:"Bytes of a result that the model sees at once; it can request the rest."`

	Expired string `yaml:"expired" oneof:"under_pressure,at_once" doc:"When results that are older than their tool allows leave what the model is shown: when room is needed, so that the provider's prompt cache keeps hitting (under_pressure), or at the next request (at_once)."`

	Shown       int   `yaml:"shown" min:"2" max:"1000" project:"less" doc:"Tools that a model is shown at most. If there are more, it gets the everyday ones, those of your agents and servers that fit what was said, and one that finds others."`
	ShownTokens int64 `yaml:"shown_tokens" min:"500" max:"1000000" project:"less" doc:"Tokens that the descriptions of the shown tools may take."`
}

// Service configures external services.
type Service struct {
	Tool ToolService `yaml:"tool" doc:"Services that offer tools."`
}

// ToolService are the services that offer tools.
type ToolService struct {
	Endpoints map[string]Endpoint `yaml:"endpoints" names:"source" doc:"Methods of gRPC services as tools. You approve each once."`
}

// Endpoint is a method of a gRPC service that is a tool.
type Endpoint struct {
	Call        string        `yaml:"call" form:"method" doc:"package.Service.Method; by default all methods of the server."`
	Name        string        `yaml:"name" form:"tool_word" doc:"The tool's name after the endpoint's; by default the method's."`
	Description string        `yaml:"description" doc:"What the tool does, for the model; by default the method's comment."`
	Host        string        `yaml:"host" doc:"HOST:PORT of the server."`
	TLS         bool          `yaml:"tls" doc:"Speak TLS, with the system's certificates."`
	Users       []string      `yaml:"users" doc:"Users who may call it; * stands for all users. Without users and groups, only the machine's own user may."`
	Groups      []string      `yaml:"groups" doc:"Groups whose members may call it."`
	Effect      string        `yaml:"effect" oneof:"query,action" doc:"Whether it only reads (query) or changes something (action)."`
	Timeout     time.Duration `yaml:"timeout" min:"100ms" max:"24h" doc:"Time limit of a call."`

	Metadata map[string]string `yaml:"metadata" names:"metadata" doc:"Sent along with each call; ${NAME} stands for a secret (steward secrets set NAME)."`
}

// Profile is what Steward knows about its user.
type Profile struct {
	TimeZone string `yaml:"time_zone" form:"zone" doc:"IANA name, such as Europe/Vienna."`
	Location string `yaml:"location" doc:"Where you are, in your own words."`
	Locale   string `yaml:"locale" form:"locale" doc:"Language tag, such as de-AT."`
	Units    string `yaml:"units" oneof:"metric,imperial" doc:"Units of measurement."`

	Personas map[string]Persona `yaml:"personas" names:"word" doc:"Ways of speaking to you, besides brief, formal and warm. /persona in a chat chooses one."`
	Persona  string             `yaml:"persona" form:"word" doc:"The name of the persona that all agents have unless you choose another in a chat, or off."`
}

// Persona is how an agent speaks. It changes no rights.
type Persona struct {
	Name     string `yaml:"name" doc:"What the agent is called."`
	Tone     string `yaml:"tone" doc:"How it sounds, such as dry and polite."`
	Language string `yaml:"language" doc:"Which language it writes, such as British English."`
	Voice    string `yaml:"voice" doc:"How it puts things, such as short sentences."`
}

// Log says what is written to stderr.
type Log struct {
	Level  string `yaml:"level" oneof:"debug,info,warn,error" project:"yes" doc:"The least important kind of line that is written."`
	Format string `yaml:"format" oneof:"text,json" project:"yes" doc:"How lines look."`
}

// Timeouts say how long Steward waits.
type Timeouts struct {
	FirstByte time.Duration `yaml:"first_byte" min:"100ms" max:"1h" project:"less" doc:"For the first byte of a model's answer."`
	Idle      time.Duration `yaml:"idle" min:"100ms" max:"1h" project:"less" doc:"Between two pieces of a model's answer."`
	Approval  time.Duration `yaml:"approval" min:"1m" max:"8760h" project:"less" doc:"How long a question stays open, and an approval valid."`
	Shutdown  time.Duration `yaml:"shutdown" min:"0s" max:"1h" doc:"For running turns to finish when Steward is stopped."`
	Drain     time.Duration `yaml:"drain" min:"0s" max:"10m" doc:"When Steward is stopped, how long it goes on before it ends, while /readyz says that it is closing: for load balancers."`
}

// Secret is a text that must not be shown, or a reference to one (see package secret). It prints
// as a mask or as the reference; Reveal returns the text.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns the mask: the last four characters of a long secret.
func (s Secret) String() string {
	const short = 16
	switch {
	case s == "", secret.IsReference(string(s)): // a reference is not secret
		return string(s)
	case len(s) < short:
		return "••••"
	}
	return "••••" + string(s[len(s)-4:])
}

// GoString implements fmt.GoStringer with the mask.
func (s Secret) GoString() string { return s.String() }

// LogValue implements slog.LogValuer with the mask.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements encoding.TextMarshaler with the mask.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Defaults returns the default settings. Data is empty, because it depends on the user.
func Defaults() Settings {
	return Settings{
		Listen:    "127.0.0.1:7420",
		Workspace: "~/Steward",
		Routing:   "auto",
		Approve:   "actions",
		Limits: Limits{Iterations: 20, Time: 10 * time.Minute, Calls: 64, Parallel: 8,
			DayStorage: 2_000_000_000, GuestStorage: 200_000_000},
		Heartbeat: Heartbeat{Every: 15 * time.Minute, At: "08:00", Quiet: "22:00-07:00", Calls: 40, Cost: 0.5},
		Plans:     Plans{AgentThreshold: 0.85},
		Memory:    Memory{Read: true, Rest: 5 * time.Minute, PerDay: 50},
		Tools:     Tools{Timeout: 30 * time.Second, ResultCap: 32 << 10, Expired: "under_pressure", Shown: 40, ShownTokens: 10000},
		Profile:   Profile{Units: "metric"},
		Log:       Log{Level: "info", Format: "text"},
		Embed:     Embed{PerMinute: 3000, DayCost: 0.5},
		Audit:     Audit{AnchorEvery: time.Hour},
		Cluster:   Cluster{Work: true, Silence: 5 * time.Second},
		Metrics:   Metrics{Stuck: 10 * time.Minute},
		Backup:    Backup{Every: 24 * time.Hour, Keep: BackupKeep{Last: 3, Daily: 7, Weekly: 4, Monthly: 6}},
		Keep:      Keep{Deleted: 30 * 24 * time.Hour, Unused: 30 * 24 * time.Hour},
		Timeouts:  Timeouts{FirstByte: 2 * time.Minute, Idle: time.Minute, Approval: 7 * 24 * time.Hour, Shutdown: 10 * time.Second},
	}
}
