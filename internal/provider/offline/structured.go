package offline

import (
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/tool"
)

// structured answers with one JSON object of a schema. It fills the schema's top level in the same way as a
// tool's parameters, with values of the text that are certain. If a required member cannot be filled, it
// refuses the schema.
func (s *speech) structured(schema *llm.Schema, cur *turn) (string, error) {
	refused := func(format string, args ...any) error {
		return fault.New(fault.Unsupported, "schema_unsupported", "the offline model cannot answer in the schema %.64q: "+format, append([]any{schema.Name}, args...)...).
			WithHint("use a simpler schema, say its values in the request, or connect a language model")
	}
	if len(schema.JSON) > maxSchema {
		return "", refused("it has %d bytes, and %d are read at most", len(schema.JSON), maxSchema)
	}
	v, err := tool.NewValidator(schema.JSON)
	if err != nil {
		return "", refused("%w", err)
	}
	if len(cur.text) > maxWish {
		return "", refused("the request has %d bytes, and %d are read at most", len(cur.text), maxWish)
	}
	params, required, broken := parameters(schema.JSON)
	if broken {
		return "", refused("it requires values that are no plain text, number or list of them")
	}
	f := newFilling(params, clause{text: cur.text, tokens: scan(s.ctx, cur.text, s.now)})
	f.place(f.placeOnly)
	for _, p := range params[:required] {
		if f.open(p) {
			return "", refused("the request does not say for certain what %s is", p.name)
		}
	}
	value := encode(f.args)
	if err := v.Validate(value); err != nil {
		return "", refused("%w", err)
	}
	return string(value), nil
}

// placeOnly places a value that is the only one for its parameter if the parameter is the only one for it. It
// considers required parameters, and dates, addresses and other values that have a recognizable form.
func (f *filling) placeOnly(p *param, _ string, t token) bool {
	if t.kind == name || !p.takes(t, false) || p.shape == "string" && p.format == "" && !p.required {
		return false
	}
	others := 0
	for _, o := range f.c.tokens {
		if o.kind != name && p.takes(o, false) {
			others++
		}
	}
	return others == 1 || p.list
}
