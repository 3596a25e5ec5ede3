package settings

// Weather says where forecasts come from.
type Weather struct {
	Off       bool   `yaml:"off" doc:"Offer no forecast."`
	URL       string `yaml:"url" form:"url" doc:"Address of a forecast service that speaks Open-Meteo's protocol; by default Open-Meteo's own."`
	PlacesURL string `yaml:"places_url" form:"url" doc:"Address of a service of Open-Meteo's protocol that finds places; by default Open-Meteo's own."`
}

// Notify says how the machine's own user is notified.
type Notify struct {
	Ntfy    Ntfy    `yaml:"ntfy" doc:"Notifications through ntfy, to the app of that name."`
	Webhook Webhook `yaml:"webhook" doc:"Notifications as JSON to a URL."`
	Mail    string  `yaml:"mail" form:"word" doc:"Notifications by mail: the name of the mailbox (see mail) that sends them to its own address."`
}

// Ntfy is a topic of an ntfy server.
type Ntfy struct {
	URL   string `yaml:"url" form:"url" doc:"The server; by default https://ntfy.sh."`
	Topic string `yaml:"topic" form:"topic" doc:"The topic. Whoever knows its name can read it, so choose one that nobody guesses."`
	Token Secret `yaml:"token" doc:"The access token, or where it is: env:NAME, file:PATH, command:PROGRAM ARGS or store:NAME (steward secrets set NAME)."`
}

// Webhook is a URL that is sent notifications.
type Webhook struct {
	URL   string `yaml:"url" form:"url" doc:"Where they are sent, as {title, text, user, time}."`
	Token Secret `yaml:"token" doc:"Sent as a bearer token, or where it is, as in the other settings."`
}
