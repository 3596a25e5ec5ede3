package api

import (
	"cmp"
	"context"

	"steward/client"
)

// LogLevels are the levels of the log of this process; package app implements it.
type LogLevels interface {
	LogLevel() client.LogLevel
	// SetLogLevel sets the level of what an agent leads to, or of everything; an empty level is that of the
	// settings. Errors: log_level_invalid, log_levels_many.
	SetLogLevel(agent, level string) error
}

func (f *server) managesLog(c *call) error {
	if err := admins(c, "only admins see and change the levels of the log", "ask an admin"); err != nil {
		return err
	}
	if f.Levels == nil {
		return unsupported("log_level", "the log of this process has no levels")
	}
	return nil
}

func (f *server) logLevel(_ context.Context, c *call, _ struct{}) (client.LogLevel, error) {
	if err := f.managesLog(c); err != nil {
		return client.LogLevel{}, err
	}
	return f.Levels.LogLevel(), nil
}

func (f *server) setLogLevel(_ context.Context, c *call, in struct {
	Body struct {
		Level string `json:"level"`
		Agent string `json:"agent"`
	} `body:""`
}) (client.LogLevel, error) {
	if err := f.managesLog(c); err != nil {
		return client.LogLevel{}, err
	}
	if err := f.Levels.SetLogLevel(in.Body.Agent, in.Body.Level); err != nil {
		return client.LogLevel{}, err
	}
	f.Logger.Info("the level of the log was changed", "level", cmp.Or(in.Body.Level, "reset"), "agent", in.Body.Agent, "by", c.User)
	return f.Levels.LogLevel(), nil
}
