package main

import (
	"path/filepath"

	"steward/internal/settings"
	"steward/internal/tool"
	"steward/internal/tools/skills"
)

func skillStore(set *settings.Loaded) skills.Store {
	return skills.Store{Dir: filepath.Join(set.Data, "skills")}
}

// skillsOf returns what a model is told about the skills that a user may use.
func skillsOf(set *settings.Loaded) func(user string) (string, error) {
	return func(user string) (string, error) {
		if !skills.For().Admits(user, nil) {
			return "", nil
		}
		return skillStore(set).About()
	}
}

// skillTools read approved skills.
func (l *local) skillTools(set *settings.Loaded) builtIn {
	return builtIn{name: "skills", tools: func() ([]tool.Tool, error) { return skills.Tools(skillStore(set)) }}
}
