package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
)

// Reviewed is a model's assessment of one tool, from its name, schema and description.
type Reviewed struct {
	Name    string   `json:"name"`
	Private bool     `json:"private"` // its results may be private data of the user
	Targets []string `json:"targets"` // arguments that name recipients or destinations
}

// Reviewer asks a model to assess tools. by names the model; it is empty if no model is available.
type Reviewer func(ctx context.Context, specs []tool.Spec) (list []Reviewed, by string, err error)

// proposal is what is proposed for the data of a unit's tools beyond what follows from names and
// schemas. It only makes tools stricter, because the author of the descriptions may want them
// laxer.
type proposal struct {
	set map[string]ToolSetting
	how string // in words
}

// reviewTools has a model assess the tools that its assessment could make stricter.
func (c *Catalog) reviewTools(ctx context.Context, specs []tool.Spec) *proposal {
	p := &proposal{set: map[string]ToolSetting{}, how: "from names and schemas"}
	var open []tool.Spec
	for _, s := range specs {
		if s.Foreign() && (s.Guessed.Yields && !s.Yields.Has(message.Private) || s.Guessed.Targets && s.Targets != nil) {
			open = append(open, s)
		}
	}
	if len(open) == 0 {
		return p
	}
	if c.opt.Review == nil {
		p.how += " only: no model could review it"
		return p
	}
	list, by, err := c.opt.Review(ctx, open)
	switch {
	case err != nil:
		p.how += " only: the review by a model failed (" + withoutRemedy(fault.Of(err)) + ")"
	case by == "":
		p.how += " only: no model could review it"
	default:
		p.addAssessment(open, list, by)
	}
	return p
}

// addAssessment adds a model's assessment where it is stricter.
func (p *proposal) addAssessment(open []tool.Spec, list []Reviewed, by string) {
	var changes []string
	for _, s := range open {
		var set ToolSetting
		var what []string
		for _, x := range list {
			if x.Name != s.Name {
				continue
			}
			if y := (s.Yields | message.Private).Names(); x.Private && s.Guessed.Yields && !s.Yields.Has(message.Private) && set.Yields == nil {
				set.Yields = &y
				what = append(what, "yields "+strings.Join(y, ","))
			}
			more := slices.DeleteFunc(slices.Clone(x.Targets), func(t string) bool { return slices.Contains(s.Targets, t) || !slices.Contains(s.Arguments(), t) })
			if len(more) > 0 && s.Guessed.Targets && s.Targets != nil && set.Targets == nil {
				all := slices.Compact(slices.Sorted(slices.Values(append(more, s.Targets...))))
				set.Targets = &all
				what = append(what, "targets "+strings.Join(all, ", "))
			}
		}
		if len(what) > 0 {
			p.set[s.Name] = set
			changes = append(changes, s.Name+" "+strings.Join(what, " and "))
		}
	}
	if p.how += fmt.Sprintf(", and %s reviewed it: ", by); len(changes) == 0 {
		p.how += "no changes"
	} else {
		p.how += "stricter settings: " + strings.Join(changes, "; ")
	}
	p.how = visible(p.how)
}

// accept applies the proposal where a person has not decided otherwise.
func (a *approval) accept(p *proposal) {
	for name, more := range p.set {
		s := a.Settings[name]
		if s.Yields == nil {
			s.Yields = more.Yields
		}
		if s.Targets == nil {
			s.Targets = more.Targets
		}
		a.Settings[name] = s
	}
}
