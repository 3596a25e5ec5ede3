package offline

import (
	"math"

	"github.com/google/jsonschema-go/jsonschema"
)

// joined merges the parts of allOf as far as values are made from them.
func (f *form) joined(s *jsonschema.Schema) *jsonschema.Schema {
	out := *s
	out.AllOf = nil
	props := map[string]*jsonschema.Schema{}
	for k, v := range s.Properties {
		props[k] = v
	}
	for _, part := range s.AllOf {
		part = f.follow(part)
		if len(part.AllOf) > 0 {
			part = f.joined(part)
		}
		if out.Type == "" && len(out.Types) == 0 {
			out.Type, out.Types = part.Type, part.Types
		}
		for k, v := range part.Properties {
			if old := props[k]; old != nil {
				v = &jsonschema.Schema{AllOf: []*jsonschema.Schema{old, v}}
			}
			props[k] = v
		}
		out.Required = append(out.Required[:len(out.Required):len(out.Required)], part.Required...)
		bound(&out.Minimum, part.Minimum, math.Max)
		bound(&out.Maximum, part.Maximum, math.Min)
		bound(&out.ExclusiveMinimum, part.ExclusiveMinimum, math.Max)
		bound(&out.ExclusiveMaximum, part.ExclusiveMaximum, math.Min)
		count(&out.MinLength, part.MinLength, true)
		count(&out.MaxLength, part.MaxLength, false)
		count(&out.MinItems, part.MinItems, true)
		count(&out.MaxItems, part.MaxItems, false)
		count(&out.MinProperties, part.MinProperties, true)
		first(&out.MultipleOf, part.MultipleOf)
		first(&out.Const, part.Const)
		first(&out.Items, part.Items)
		first(&out.Contains, part.Contains)
		first(&out.AdditionalProperties, part.AdditionalProperties)
		if len(out.Enum) == 0 {
			out.Enum = part.Enum
		}
		if out.Pattern == "" {
			out.Pattern = part.Pattern
		}
		if out.Format == "" {
			out.Format = part.Format
		}
		if len(out.AnyOf) == 0 {
			out.AnyOf = part.AnyOf
		}
		if len(out.OneOf) == 0 {
			out.OneOf = part.OneOf
		}
		if len(out.PrefixItems) == 0 {
			out.PrefixItems = part.PrefixItems
		}
		out.UniqueItems = out.UniqueItems || part.UniqueItems
	}
	if len(props) > 0 {
		out.Properties = props
	}
	return &out
}

func first[T any](dst **T, src *T) {
	if *dst == nil {
		*dst = src
	}
}

func bound(dst **float64, src *float64, choose func(a, b float64) float64) {
	switch {
	case src == nil:
	case *dst == nil:
		*dst = src
	default:
		v := choose(**dst, *src)
		*dst = &v
	}
}

func count(dst **int, src *int, most bool) {
	if src != nil && (*dst == nil || most == (*src > **dst)) {
		*dst = src
	}
}
