package settings

// Shell says what commands of the assistant may do.
type Shell struct {
	Off   bool     `yaml:"off" doc:"Run no commands and no code."`
	Hosts []string `yaml:"hosts" doc:"Where commands may connect to: example.org, *.example.org, example.org:8443. Without any they have no network."`
}
