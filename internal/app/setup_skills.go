package app

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/secret/mask"
	"steward/internal/tools/skills"
)

// skills returns where the approved skills are.
func (s *setupService) skills() skills.Store {
	_, set := s.current()
	return SkillStore(set)
}

// WithoutSecrets hides the secrets that Steward knows and what looks like one, and reports whether there was any.
func (a *App) WithoutSecrets(text string) (string, bool) {
	out := mask.New(nil, nil, false).Text(a.Hidden().Mask(text))
	return out, out != text
}

func skillView(r skills.Record) client.Skill {
	return client.Skill{Name: r.Name, Description: r.Description, Source: r.Source, Hash: r.Hash, Approved: r.Approved}
}

// Skills implements api.Setup.
func (s *setupService) Skills(ctx context.Context) (out []client.Skill, err error) {
	store := s.skills()
	list, err := store.List()
	for _, r := range list {
		x := skillView(r)
		if _, _, err := store.Get(ctx, r.Name); err != nil {
			x.Changed = WithoutRemedy(fault.Of(err))
		}
		out = append(out, x)
	}
	return out, err
}

// Skill implements api.Setup.
func (s *setupService) Skill(ctx context.Context, name string) (client.Skill, error) {
	sk, r, err := s.skills().Get(ctx, name)
	if fault.HasCode(err, "skill_changed") {
		x := skillView(r)
		x.Changed = WithoutRemedy(fault.Of(err))
		return x, nil
	}
	if err != nil {
		return client.Skill{}, err
	}
	x := skillView(r)
	x.Text, _ = s.app.WithoutSecrets(sk.Files["SKILL.md"])
	x.Files = slices.Sorted(maps.Keys(sk.Files))
	return x, nil
}

// FindSkills implements api.Setup.
func (s *setupService) FindSkills(ctx context.Context, source string) (out []client.FoundSkill, err error) {
	found, err := s.fetch(ctx, source)
	if err != nil {
		return nil, err
	}
	for _, sk := range found {
		old, r, err := s.skills().Get(ctx, sk.Name)
		x := client.FoundSkill{Name: sk.Name, Description: sk.Description, Hash: sk.Hash(), State: "changed"}
		switch {
		case fault.Is(err, fault.NotFound):
			x.State = "new"
		case err == nil && r.Hash == x.Hash:
			x.State = "approved"
		}
		x.Diff, x.Hidden = s.app.WithoutSecrets(sk.Diff(old))
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b client.FoundSkill) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// fetch reads the skills of a source.
func (s *setupService) fetch(ctx context.Context, source string) ([]*skills.Skill, error) {
	source = strings.TrimSpace(source)
	switch {
	case source == "":
		return nil, fault.New(fault.Invalid, "skill_source_missing", "there is no source").WithHint("name a folder, a .zip, or the URL of a git repository")
	case !strings.Contains(source, "://") && !strings.HasPrefix(source, "git@"):
		if home := s.app.Getenv("HOME"); home != "" && strings.HasPrefix(source, "~/") {
			source = filepath.Join(home, source[2:])
		}
		if !filepath.IsAbs(source) {
			return nil, fault.New(fault.Invalid, "skill_source_missing", "%.200q is not an absolute path", source).WithHint("write it from / or ~/ on, or the URL of a git repository")
		}
	}
	return skills.Fetch(ctx, source)
}

// ApproveSkill implements api.Setup. The source is read again, so that nothing but what was shown is approved.
func (s *setupService) ApproveSkill(ctx context.Context, user, source, name, hash string) error {
	found, err := s.fetch(ctx, source)
	if err != nil {
		return err
	}
	for _, sk := range found {
		switch {
		case sk.Name != name:
			continue
		case sk.Hash() != hash:
			return fault.New(fault.Conflict, "skill_changed", "the skill %s has changed since it was shown", name).WithHint("look at it again")
		}
		s.log.Info("a skill was approved", "by", user, "name", name)
		return s.skills().Approve(sk, time.Now())
	}
	return fault.New(fault.NotFound, "skill_not_found", "the source has no skill %.80q any more", name).WithHint("look at the source again")
}

// RemoveSkill implements api.Setup.
func (s *setupService) RemoveSkill(_ context.Context, user, name string) error {
	s.log.Info("a skill was removed", "by", user, "name", name)
	return s.skills().Remove(name)
}
