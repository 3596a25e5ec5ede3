package backup

import (
	"path"
	"strings"
)

// A Sort says what becomes of a file of the data folder.
type Sort string

// The sorts.
const (
	Truth   Sort = "truth"   // it cannot be made again: it is in the backup
	Costly  Sort = "costly"  // it can be made again, but that costs money or hours: it is in the backup
	Derived Sort = "derived" // Steward makes it again from the truth: it is left out
	Passing Sort = "passing" // it is of use only to a running process: it is left out
	Aside   Sort = "aside"   // it is a copy of older data: it is left out
	Unknown Sort = "unknown" // no rule names it: it is in the backup
)

// kept reports whether a backup has files of this sort.
func (s Sort) kept() bool { return s == Truth || s == Costly || s == Unknown }

// database is the name of the database with the tree and the log.
const database = "steward.db"

// Rule says what a kind of file of the data folder is. This is the only list of them: a new kind gets its line here.
type Rule struct {
	Path string // a path below the data folder with patterns of path.Match; "…/" at the end stands for everything below
	Sort Sort
	What string
}

// Rules returns the table. The first rule that fits counts.
func Rules() []Rule {
	return []Rule{
		{".token-*", Passing, "a key that is being written"},
		{"*.new", Passing, "a file that is being written"},
		{"*/.new-*/", Passing, "a folder or key that is being written"},
		{"*/.new-*", Passing, "a key that is being written"},
		{".steward-probe-*", Passing, "a test whether the disk is full"},

		{database, Truth, "the tree and the log: conversations, facts, documents, jobs, requests, users and all other records"},
		{database + "-wal", Passing, "what the database writes ahead; its content is in the copy"},
		{database + "-shm", Passing, "the index of what is written ahead"},
		{database + ".lock", Passing, "which process uses the folder"},
		{database + ".v*.backup", Aside, "the database before a migration, as older Stewards copied it"},

		{"vectors.db", Costly, "the index of vectors, which models were paid for"},
		{"vectors.db-*", Passing, "what an index writes ahead"},
		{"nats/", Derived, "pointers of a cluster to what waits in the database"},
		{"search.db*", Derived, "the index of the words of messages"},
		{"documents.db*", Derived, "the index of the words of documents; their texts are in the log"},

		{"token", Truth, "the key of the machine's own user"},
		{"export.key", Truth, "the key that signs exports"},
		{"secrets/", Truth, "secrets that people have stored"},
		{"policies/", Truth, "a person's own policies"},
		{"agents/", Truth, "agents of the data folder"},
		{"snapshots/", Truth, "what a person has approved of agents: the code that runs"},
		{"skills/", Truth, "skills that a person has approved"},
		{"mcp.json", Truth, "servers of tools"},
		{"services/", Truth, "databases that agents keep"},
		{"private/", Truth, "files of tools, agents and channels: calendars, tasks, what was deleted, positions"},
		{"known-models.json", Truth, "prices and windows of models, as they were fetched"},
		{"tested-models.json", Truth, "what models were found to be able to do"},
		{"history", Truth, "what was typed into the chat"},
		{"backup.json", Truth, "how the last scheduled backups ended"},

		{"server.json", Passing, "where a running Steward can be reached"},
		{"serve.log*", Passing, "the log of the service"},
		{"chat.log", Passing, "the log of the chat"},

		{"backups/", Aside, "backups, and the room in which they are made"},
		{"before-restore-*/", Aside, "what was there before a restore"},
		{"settings-of-backup/", Aside, "the settings in the backup that was restored"},
		{restorePartial + "/", Passing, "a restore that has not happened"},
		{restoreReady + "/", Passing, "a restore that is being finished"},
	}
}

// sortOf returns the sort of a file by its path below the data folder, with slashes.
func sortOf(rules []Rule, name string) Sort {
	for _, r := range rules {
		if r.fits(name) {
			return r.Sort
		}
	}
	return Unknown
}

// SortOf returns the sort of a file by its path below the data folder, with slashes.
func SortOf(name string) Sort { return sortOf(Rules(), name) }

func (r *Rule) fits(name string) bool {
	pattern, below := strings.CutSuffix(r.Path, "/")
	if below { // compare as many parts as the pattern has
		parts := strings.SplitN(name, "/", strings.Count(pattern, "/")+2)
		if n := strings.Count(pattern, "/") + 1; len(parts) > n {
			parts = parts[:n]
		}
		name = strings.Join(parts, "/")
	}
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// stage is when a file is copied; see the package's comment.
type stage int

const (
	indexes stage = iota
	approved
	truth
	everythingElse
)

func stageOf(name string) stage {
	switch top, _, _ := strings.Cut(name, "/"); top {
	case "vectors.db":
		return indexes
	case "snapshots":
		return approved
	case database:
		return truth
	}
	return everythingElse
}
