package tokens

import (
	"encoding/json"
	"math"
	"slices"

	"steward/internal/fault"
)

// The saved form of a Calibrator: a JSON object with the parameters' names and,
// for each model, the regression's sums in the parameters' order, the lower
// triangle of the matrix only. About 1 KB per model.
type state struct {
	Parameters []string              `json:"parameters"`
	Models     map[string]modelState `json:"models"`
}

type modelState struct {
	Requests float64     `json:"requests"`
	Noise    float64     `json:"noise"`
	Pull     []float64   `json:"pull"`
	Info     [][]float64 `json:"info"`
}

// parameters are the names of what is learned, in the order of a vector.
func parameters() []string {
	names := scriptNames()
	return append(names[:], "overhead")
}

// Save returns what was learned as JSON, for Load.
func (c *Calibrator) Save() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := state{Parameters: parameters(), Models: map[string]modelState{}}
	for name, l := range c.models {
		out.Models[name] = l.save()
	}
	b, err := json.Marshal(out)
	if err != nil { // numbers that are none are never learned
		panic("tokens: " + err.Error())
	}
	return b
}

func (l *learner) save() modelState {
	info, pull := l.info, l.pull
	for i := range l.recent {
		l.recent[i].add(&info, &pull)
	}
	s := modelState{Requests: l.n, Noise: round(l.noise)}
	for i := range dims {
		s.Pull = append(s.Pull, round(pull[i]))
		row := make([]float64, i+1)
		for j := range row {
			row[j] = round(info[i][j])
		}
		s.Info = append(s.Info, row)
	}
	return s
}

// round keeps nine digits.
func round(x float64) float64 {
	if x == 0 {
		return 0
	}
	scale := math.Pow(10, 8-math.Floor(math.Log10(math.Abs(x))))
	if r := math.Round(x*scale) / scale; !math.IsNaN(r) && !math.IsInf(r, 0) {
		return r
	}
	return x
}

// Load replaces what was learned by what Save returned, of this version or
// another one: parameters that this one does not have are left out. Where
// something is wrong (calibration_invalid), nothing is changed.
func (c *Calibrator) Load(saved []byte) error {
	var in state
	if err := json.Unmarshal(saved, &in); err != nil {
		return invalid("the calibration of token counts cannot be read: %w", err)
	}
	models := map[string]*learner{}
	for name, s := range in.Models {
		l := newLearner()
		if !l.load(s, in.Parameters) {
			return invalid("the calibration of token counts for %.80q is damaged", name)
		}
		models[name] = l
	}
	if len(models) > maxModels {
		return invalid("the calibration of token counts has %d models, more than %d", len(models), maxModels)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.models, c.clock = models, 0
	return nil
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "calibration_invalid", format, args...).
		WithHint("delete it: it is learned anew from what the providers report")
}

func (l *learner) load(s modelState, names []string) bool {
	if len(s.Pull) != len(names) || len(s.Info) != len(names) || !(s.Requests >= 0) || !(s.Noise >= leastNoise && s.Noise <= mostNoise) {
		return false
	}
	own := parameters()
	for i, name := range names {
		if len(s.Info[i]) != i+1 || s.Info[i][i] < 0 {
			return false
		}
		row := slices.Index(own, name)
		if row < 0 {
			continue
		}
		l.pull[row] = s.Pull[i]
		for j, x := range s.Info[i] {
			if col := slices.Index(own, names[j]); col >= 0 {
				l.info[max(row, col)][min(row, col)] = x
			}
		}
	}
	l.n, l.noise = s.Requests, s.Noise
	l.refit()
	return l.fitted.sound()
}

// sound reports whether the numbers are such as a regression has.
func (f *fit) sound() bool {
	for i := range dims {
		if !(f.cov[i][i] > 0) || math.IsInf(f.cov[i][i], 0) || math.IsNaN(f.mean[i]) || math.IsInf(f.mean[i], 0) {
			return false
		}
	}
	return true
}
