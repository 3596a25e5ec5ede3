package settings

import "time"

// Metrics say where the metrics are served.
type Metrics struct {
	Listen string        `yaml:"listen" form:"listen" doc:"An address of its own, such as 127.0.0.1:9420, at which /metrics needs no credential. Whoever reaches it learns how much is done, with which tools and models, but no user and no text. Empty: there is none; at the address of the server, /metrics needs the key of an admin or one made with steward keys create --only metrics."`
	Stuck  time.Duration `yaml:"stuck" min:"10s" max:"168h" doc:"How long an index may fall behind without progress until /readyz says that Steward is not ready."`
}

// Traces say where traces are sent.
type Traces struct {
	Endpoint string `yaml:"endpoint" form:"url" doc:"Where spans are sent with OTLP over HTTP, such as http://127.0.0.1:4318. Empty: nowhere."`
	Key      Secret `yaml:"key" doc:"Its bearer token, or where it is: env:NAME, file:PATH, command:PROGRAM ARGS or store:NAME (steward secrets set NAME)."`
	Content  bool   `yaml:"content" doc:"Spans also have what people and models say, and the arguments and results of tools. Whoever can read the traces can read that."`
}
