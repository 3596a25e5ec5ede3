package offline

import "regexp"

// matches reports whether a text holds the parameter's pattern, if it has one.
func (p *param) matches(s string) bool {
	if p.schema.Pattern == "" {
		return true
	}
	re, err := regexp.Compile(p.schema.Pattern)
	return err != nil || re.MatchString(s)
}

// mend makes the step's arguments valid by leaving out optional ones, and
// reports whether they are.
func (s *step) mend() bool {
	resolved := s.tool.resolved()
	if resolved == nil {
		return false
	}
	if resolved.Validate(s.args) == nil {
		return true
	}
	for _, p := range s.tool.params {
		if _, ok := lookup(s.args, p.path); ok && !p.required {
			if args := drop(s.args, p.path); resolved.Validate(args) == nil {
				s.args = args
				return true
			}
		}
	}
	for _, p := range s.tool.params {
		if !p.required {
			s.args = drop(s.args, p.path)
		}
	}
	return resolved.Validate(s.args) == nil
}
