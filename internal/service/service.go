// Package service defines the services that agents and their programs use:
// models, a private database, a log, state, and the user's profile. For each
// service it defines where it comes from and whether child agents may use it.
package service

import (
	"context"
	"encoding/json"
)

// Name is one of the services.
type Name string

// The services.
const (
	LLM     Name = "llm"
	DB      Name = "db"      // a private relational store
	Logging Name = "logging" // log lines, with their author
	State   Name = "state"   // key and value, per agent and user
	User    Name = "user"    // the user: name, language, time zone, units
)

// Source is where a service comes from.
type Source string

// The sources. Local is the default.
const (
	Local  Source = "local"  // the agent's own
	Remote Source = "remote" // at a URL
	Parent Source = "parent" // what the level above offers
)

// Offering says whether child agents may use a service.
type Offering string

// The offerings. None is the default.
const (
	None  Offering = "none"
	Serve Offering = "serve"
)

// Config configures one service of an agent, as written under services in agent.yaml.
type Config struct {
	Source   Source   `yaml:"source"`
	Offering Offering `yaml:"offering"`
	URL      string   `yaml:"url"`      // Remote
	Key      string   `yaml:"key"`      // Remote: the name of the secret that opens it
	Fallback Source   `yaml:"fallback"` // Remote: Local, used while the URL cannot be reached

	Model       string   `yaml:"model"` // LLM: Local: an alias or "provider/model"; Remote: the model's name there
	Temperature *float64 `yaml:"temperature"`
	MaxTokens   int      `yaml:"max_tokens"`
	Level       string   `yaml:"level"` // Logging: debug, info, warn, error
	Tools       bool     `yaml:"tools"` // State, DB: the agent's model uses it through tools
}

// Configs holds an agent's services. A service without an entry is Local and None.
type Configs map[Name]Config

// Names returns all services.
func Names() []Name { return []Name{LLM, DB, Logging, State, User} }

// Caller identifies the agent and user for whom a service is used.
type Caller struct {
	Agent string // the path of the agent whose service it is
	User  string
}

// KV is the state service: small values by key. Safe for concurrent use.
type KV interface {
	// Get returns a value (not_found).
	Get(ctx context.Context, c Caller, key string) (json.RawMessage, error)
	// Put stores a value durably before it returns.
	Put(ctx context.Context, c Caller, key string, value json.RawMessage) error
	Delete(ctx context.Context, c Caller, key string) error
	// List returns the keys with a prefix, sorted, at most limit from after.
	List(ctx context.Context, c Caller, prefix, after string, limit int) (keys []string, err error)
}

// Database is the db service: SQL over a database private to the agent and those
// it serves. Safe for concurrent use.
type Database interface {
	// Query runs one statement and returns its rows.
	Query(ctx context.Context, c Caller, statement string, args ...any) (Rows, error)
	// Exec runs statements in one transaction.
	Exec(ctx context.Context, c Caller, statements ...Statement) (changed int64, err error)
}

// Statement is one SQL statement with its arguments.
type Statement struct {
	SQL  string `json:"sql"`
	Args []any  `json:"args,omitempty"`
}

// Rows is the complete result of a query.
type Rows struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
}
