package service

import (
	"context"
	"encoding/json"

	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Openers returns the openers of the tools by which an agent uses its own state and its own database, by the
// name of the service. Each user of the agent has them apart.
func Openers(kv KV, db Database) map[string]tool.Opener {
	return map[string]tool.Opener{
		string(State): opener(func(env tool.Env, k *local.Kit) { state(env, k, kv) }),
		string(DB):    opener(func(env tool.Env, k *local.Kit) { database(env, k, db) }),
	}
}

func opener(add func(tool.Env, *local.Kit)) tool.Opener {
	return func(env tool.Env, _ func(any) error) (tool.Source, error) {
		k := local.NewKit(env, tool.OriginOwn)
		add(env, k)
		return k.Source()
	}
}

// kept is a sentence in the tools' descriptions.
const kept = "It is kept for this agent and this user alone."

type keyArgs struct {
	Key string `json:"key" jsonschema:"Name of the note, such as favourite_city" minlen:"1" maxlen:"160"`
}

type putArgs struct {
	keyArgs
	Value string `json:"value" jsonschema:"What to keep" maxlen:"60000"`
}

type listArgs struct {
	Prefix string `json:"prefix,omitzero" jsonschema:"Only names that begin with this" maxlen:"160"`
	After  string `json:"after,omitzero" jsonschema:"Only names after this one, to read on" maxlen:"160"`
}

func caller(in tool.Invocation, env tool.Env) Caller {
	return Caller{Agent: env.Agent, User: in.User}
}

func state(env tool.Env, k *local.Kit, kv KV) {
	local.Query(k, spec("get", "Read a note that was kept earlier. "+kept),
		func(ctx context.Context, in tool.Invocation, a keyArgs) (string, error) {
			v, err := kv.Get(ctx, caller(in, env), a.Key)
			if err != nil {
				return "", err
			}
			var text string
			if json.Unmarshal(v, &text) != nil {
				return string(v), nil // a program has stored something other than text
			}
			return text, nil
		})
	local.Query(k, spec("list", "List the names of the notes that were kept. "+kept),
		func(ctx context.Context, in tool.Invocation, a listArgs) ([]string, error) {
			return kv.List(ctx, caller(in, env), a.Prefix, a.After, 200)
		})
	local.Action(k, spec("put", "Keep a note under a name, in place of what was there. "+kept),
		func(ctx context.Context, in tool.Invocation, a putArgs) (string, error) {
			v, err := json.Marshal(a.Value)
			if err != nil {
				return "", err
			}
			return "Kept.", kv.Put(ctx, caller(in, env), a.Key, v)
		}, nil)
	local.Action(k, spec("delete", "Forget a note. "+kept),
		func(ctx context.Context, in tool.Invocation, a keyArgs) (string, error) {
			return "Forgotten.", kv.Delete(ctx, caller(in, env), a.Key)
		}, nil)
}

type queryArgs struct {
	SQL  string   `json:"sql" jsonschema:"One SELECT statement of SQLite, with ? for each argument" minlen:"1" maxlen:"20000"`
	Args []string `json:"args,omitzero" jsonschema:"The arguments, in order"`
}

type execArgs struct {
	SQL  string   `json:"sql" jsonschema:"One statement of SQLite that changes rows or tables, with ? for each argument" minlen:"1" maxlen:"20000"`
	Args []string `json:"args,omitzero" jsonschema:"The arguments, in order"`
}

func database(env tool.Env, k *local.Kit, db Database) {
	local.Query(k, spec("query", "Ask the agent's own SQLite database. "+kept+" SELECT from sqlite_schema tells which tables there are."),
		func(ctx context.Context, in tool.Invocation, a queryArgs) (Rows, error) {
			return db.Query(ctx, caller(in, env), a.SQL, anys(a.Args)...)
		})
	local.Action(k, spec("exec", "Change the agent's own SQLite database: tables and rows. "+kept),
		func(ctx context.Context, in tool.Invocation, a execArgs) (map[string]int64, error) {
			n, err := db.Exec(ctx, caller(in, env), Statement{SQL: a.SQL, Args: anys(a.Args)})
			return map[string]int64{"changed": n}, err
		}, nil)
}

// mine are the labels of what an agent stores: it belongs to the user, and may contain what the agent read
// of others.
const mine = message.Private | message.Untrusted

// spec returns the common part of the tools' specs.
func spec(name, description string) tool.Spec {
	return tool.Spec{Name: name, Description: description, Yields: mine}
}

func anys(texts []string) []any {
	out := make([]any, len(texts))
	for i, s := range texts {
		out[i] = s
	}
	return out
}
