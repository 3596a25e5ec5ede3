package client

import "context"

// LogLevel says which lines a Steward writes to its log.
type LogLevel struct {
	Level    string            `json:"level"`            // debug, info, warn or error
	Settings string            `json:"settings"`         // the one of the settings, which counts after a restart
	Agents   map[string]string `json:"agents,omitempty"` // of what single agents lead to, by their paths
}

// LogLevel returns the levels of the log.
func (c *Client) LogLevel(ctx context.Context) (LogLevel, error) {
	return ask[LogLevel](ctx, c, "GET /log-level", nil, nil)
}

// SetLogLevel changes the level of the log until the next start: of what an agent leads to, or of everything if
// agent is empty. An empty level is that of the settings.
func (c *Client) SetLogLevel(ctx context.Context, agent, level string) (LogLevel, error) {
	return ask[LogLevel](ctx, c, "PUT /log-level", nil, map[string]any{"agent": agent, "level": level})
}
