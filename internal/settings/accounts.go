package settings

// Mail is a mailbox.
type Mail struct {
	Address  string   `yaml:"address" doc:"Your address, such as ann@example.com or Ann Example <ann@example.com>."`
	IMAP     string   `yaml:"imap" form:"host_port" doc:"HOST:PORT of the IMAP server, such as imap.example.com:993."`
	SMTP     string   `yaml:"smtp" form:"host_port" doc:"HOST:PORT of the server that takes mail for sending, such as smtp.example.com:465. Without it mail can only be read."`
	User     string   `yaml:"user" doc:"The name to log in with; by default the address."`
	Password Secret   `yaml:"password" doc:"The password, or where it is: env:NAME, file:PATH, command:PROGRAM ARGS or store:NAME (steward secrets set NAME)."`
	OAuth    string   `yaml:"oauth" form:"word" doc:"google, microsoft or another service of oauth, instead of a password. Then run steward accounts connect NAME."`
	TLS      string   `yaml:"tls" oneof:"implicit,starttls,none" doc:"How connections are encrypted; by default implicit on ports 993 and 465, and starttls elsewhere. none is for servers on this machine."`
	New      string   `yaml:"new" oneof:"event,notify,ignore" doc:"What happens when an e-mail arrives: an event is published (event, the default), you are also notified (notify), or nothing."`
	Users    []string `yaml:"users" doc:"Users who may use it; * stands for all users. Without users and groups, only the machine's own user may."`
	Groups   []string `yaml:"groups" doc:"Groups whose members may use it."`
}

// Channel is an account at a messenger.
type Channel struct {
	Kind     string            `yaml:"kind" form:"word" doc:"The service, such as telegram or webhook; by default the account's name."`
	Token    Secret            `yaml:"token" doc:"The account's token, or where it is: env:NAME, file:PATH, command:PROGRAM ARGS or store:NAME (steward secrets set NAME)."`
	BaseURL  string            `yaml:"base_url" form:"url" doc:"Address of the service, if it is not the public one."`
	Settings map[string]string `yaml:"settings" names:"word" doc:"What this service needs besides; see docs/guides/messengers.md."`
	Off      bool              `yaml:"off" doc:"Do not connect."`
}

// Calendar is an account for calendars and to-do lists at a server.
type Calendar struct {
	URL      string   `yaml:"url" form:"url" doc:"Address of the CalDAV server, or of one calendar at it. It begins with https://, except on this machine."`
	User     string   `yaml:"user" doc:"The name to log in with."`
	Password Secret   `yaml:"password" doc:"The password, or where it is: env:NAME, file:PATH, command:PROGRAM ARGS or store:NAME (steward secrets set NAME)."`
	OAuth    string   `yaml:"oauth" form:"word" doc:"google or another service of oauth, instead of a password. Then run steward accounts connect NAME."`
	Address  string   `yaml:"address" doc:"Your e-mail address in invitations; by default the one that the server knows."`
	Only     string   `yaml:"only" oneof:"events,tasks" doc:"What it is used for; by default both."`
	Users    []string `yaml:"users" doc:"Users who may use it; * stands for all users. Without users and groups, only the machine's own user may."`
	Groups   []string `yaml:"groups" doc:"Groups whose members may use it."`
}

// Contacts are address books at a server.
type Contacts struct {
	URL      string   `yaml:"url" form:"url" doc:"Address of the CardDAV server, or of one address book at it. It begins with https://, except on this machine."`
	User     string   `yaml:"user" doc:"The name to log in with."`
	Password Secret   `yaml:"password" doc:"The password, or where it is: env:NAME, file:PATH, command:PROGRAM ARGS or store:NAME (steward secrets set NAME)."`
	OAuth    string   `yaml:"oauth" form:"word" doc:"google or another service of oauth, instead of a password. Then run steward accounts connect NAME."`
	Users    []string `yaml:"users" doc:"Users who may use it; * stands for all users. Without users and groups, only the machine's own user may."`
	Groups   []string `yaml:"groups" doc:"Groups whose members may use it."`
}

// OAuth is a registration of Steward with a service that accounts are connected to.
type OAuth struct {
	ClientID     string   `yaml:"client_id" doc:"The id of the client that you registered there, as a desktop program."`
	ClientSecret Secret   `yaml:"client_secret" doc:"Its secret, or where it is; Google gives one to desktop programs as well."`
	AuthURL      string   `yaml:"auth_url" form:"url" doc:"Where a person consents; known for google and microsoft."`
	TokenURL     string   `yaml:"token_url" form:"url" doc:"Where tokens are; known for google and microsoft."`
	DeviceURL    string   `yaml:"device_url" form:"url" doc:"Where the flow for other devices begins; known for microsoft."`
	Scopes       []string `yaml:"scopes" doc:"What is asked for; known for google and microsoft."`
}
