package app

import (
	"time"

	"steward/internal/goals"
	"steward/internal/requests"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/tools/goal"
	domainlocal "steward/internal/tools/local"
)

// goals returns the engine that keeps goals and projects in a store.
func (a *App) goals(st store.Store, zone func(user string) *time.Location) *goals.Engine {
	return goals.New(goals.Options{Store: st, Mask: a.Hidden().Mask, Zone: zone, Tasks: requests.EffortTasks{Store: st}})
}

// goalTools are the tools for goals, or those for projects. They change nothing but the user's own list.
func (l *Local) goalTools(set *settings.Loaded, name string, add func(*domainlocal.Kit, goal.Options)) BuiltIn {
	return BuiltIn{Name: name, tools: func() ([]tool.Tool, error) {
		k := domainlocal.NewKit(builtInEnv(set, name), tool.OriginOwn)
		add(k, goal.Options{Options: domainlocal.Options{Zone: l.zone(set)}, Goals: l.goals})
		return k.Tools()
	}}
}

var _ goal.Goals = (*goals.Engine)(nil)
