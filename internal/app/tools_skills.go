package app

import (
	"path/filepath"

	"steward/internal/settings"
	"steward/internal/tool"
	"steward/internal/tools/skills"
)

// SkillStore returns where approved skills are kept.
func SkillStore(set *settings.Loaded) skills.Store {
	return skills.Store{Dir: filepath.Join(set.Data, "skills")}
}

// skillsOf describes for a model the skills that a user may use.
func skillsOf(set *settings.Loaded) func(user string) (string, error) {
	return func(user string) (string, error) {
		if !skills.For().Admits(user, nil) {
			return "", nil
		}
		return SkillStore(set).About()
	}
}

// skillTools read approved skills.
func (l *Local) skillTools(set *settings.Loaded) BuiltIn {
	return BuiltIn{Name: "skills", tools: func() ([]tool.Tool, error) { return skills.Tools(SkillStore(set)) }}
}
