package tokens

import (
	"math"
	"slices"
	"sync"
)

// Calibrator learns from what providers report how many tokens a model really
// makes of each script. The zero value is ready; it is safe for concurrent use.
//
// Per model it fits
//
//	reported = overhead + Σ ratio(script) · estimate(script)
//
// by Bayesian linear regression: before anything is known a ratio is 1, the
// estimate's own, give or take 0.6. A request tells something about the scripts
// it has, in proportion to their share, and nothing of the others, which so
// stay at 1; where scripts always come together, their sum is known before each
// of them is, and counts use just that. The overhead is what the requests have
// in common whatever their size: a hidden system prompt is not taken for a
// ratio. A request counts for what is new in it, if it continues the one
// before; what was learned long ago fades. Against outliers the latest requests
// are kept and weighed anew each time, those less that do not fit the others.
type Calibrator struct {
	mu     sync.Mutex
	models map[string]*learner
	clock  int64 // requests learned from, over all models
}

const (
	// dims are the ratios and, last, the overhead in units of overheadUnit.
	dims         = int(scripts) + 1
	overhead     = int(scripts)
	overheadUnit = 1000

	leastRatio   = 0.25
	mostRatio    = 4
	mostOverhead = 64 // units

	priorSpread = 0.6  // of a ratio around 1
	priorHidden = 10   // of the overhead around 0, in units
	priorNoise  = 0.08 // of a request's tokens around what is expected, as a share
	priorWeight = 4    // requests that priorNoise is worth
	leastNoise  = 0.01
	mostNoise   = 1.0
	farOff      = 2     // standard deviations beyond which a request pulls no harder
	memory      = 0.998 // what is kept at each request: the last 500 count most
	recent      = 64    // requests that are weighed anew

	leastTokens   = 32  // smaller requests say nothing
	mostMedia     = 0.5 // share of media beyond which a request says nothing of text
	leastPlain    = 0.2 // a smaller share of the estimate is no count of all tokens
	leastRequests = 5   // before a model counts as calibrated

	// The margin over the expectation: at least, as a multiple of the noise,
	// and at most.
	leastMargin = 0.05
	noiseMargin = 2
	mostMargin  = 0.25

	maxModels = 512 // names come from outside: the memory of them is bounded
)

type (
	vector [dims]float64
	matrix [dims]vector
)

// observation is one request, as a row of the regression.
type observation struct {
	shares vector
	pull   float64 // reported/estimate, less what was expected before anything was known
	sure   float64 // 1/variance, in units of the noise's
	news   float64 // share of it that is new
	off    float64 // by how much it surprised, in units of what was expected, as a share
	weight float64 // how well it fits the others: 1 to 0
}

// learner is what is known of one model.
type learner struct {
	info   matrix // Σ weight · shares · sharesᵀ of the requests before the recent ones, lower triangle
	pull   vector // Σ weight · shares · pull
	recent []observation
	n      float64 // requests learned from
	noise  float64 // standard deviation of reported/estimate around what is expected
	used   int64   // clock when something was last learned
	last   Parts   // the last request
	fitted *fit
}

// fit is what follows from it. Immutable.
type fit struct {
	mean   vector // ratios, and the overhead in units
	cov    matrix
	seen   [scripts]bool // something was learned of the script
	margin float64
	n      float64
}

// Learn takes note that a model's provider counted so many input tokens, cached
// ones included (message.Usage.Input), for a request of the given parts. What
// cannot be a count of them all (zero, a fraction) is ignored.
func (c *Calibrator) Learn(model string, parts Parts, reportedInput int64) {
	size := float64(parts.Tokens())
	switch {
	case size < leastTokens, float64(parts[Media]) > mostMedia*sixteenths*size:
		return
	case float64(reportedInput) < leastPlain*size, float64(reportedInput) > mostRatio*size+mostOverhead*overheadUnit:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.learner(model)
	c.clock++
	l.used = c.clock
	l.learn(parts, size, float64(reportedInput)/size)
}

// learner returns the model's, forgetting that of another one if there are too
// many. c.mu is held.
func (c *Calibrator) learner(model string) *learner {
	l := c.models[model]
	if l != nil {
		return l
	}
	if c.models == nil {
		c.models = map[string]*learner{}
	}
	if len(c.models) >= maxModels {
		oldest, at := "", int64(math.MaxInt64)
		for name, m := range c.models {
			if m.used < at {
				oldest, at = name, m.used
			}
		}
		delete(c.models, oldest)
	}
	l = newLearner()
	c.models[model] = l
	return l
}

func newLearner() *learner {
	l := &learner{noise: priorNoise}
	l.refit()
	return l
}

// shares returns the row of the regression for a request: what share of the
// estimate each script has, and the overhead's unit relative to it.
func shares(parts Parts, size float64) (x vector) {
	for s, n := range parts {
		x[s] = float64(n) / (sixteenths * size)
	}
	x[overhead] = overheadUnit / size
	return x
}

// learn takes one request into account: its parts, their estimate, and how
// many times the estimate was reported.
func (l *learner) learn(parts Parts, size, reported float64) {
	o := observation{shares: shares(parts, size), weight: 1, news: l.news(parts)}
	o.sure = size / (size + 100) // small requests are noisier
	o.sure /= 1 + square(o.shares[Media]*priorSpread/priorNoise)
	o.pull = reported
	for s := range int(scripts) {
		o.pull -= o.shares[s]
	}
	variance := square(l.noise)/o.sure + l.fitted.variance(&o.shares)
	o.off = (reported - l.fitted.expect(&o.shares)) * l.noise / math.Sqrt(variance)
	if len(l.recent) == recent {
		l.settle()
	}
	l.recent = append(l.recent, o)
	l.n++
	l.last = parts
	l.measureNoise()
	l.refit()
}

// settle takes the oldest of the recent requests for what it is found to be,
// with less weight where no other confirms it: that one may be an outlier.
func (l *learner) settle() {
	o := l.recent[0]
	alone := o.weight * o.sure * o.news * l.fitted.variance(&o.shares) / square(l.noise)
	o.weight *= max(0.25, 1-alone)
	for i := range dims {
		l.pull[i] *= memory
		for j := range i + 1 {
			l.info[i][j] *= memory
		}
	}
	o.add(&l.info, &l.pull)
	l.recent = append(l.recent[:0], l.recent[1:]...)
}

// add adds the observation to the sums, of the matrix to the lower triangle.
func (o *observation) add(info *matrix, pull *vector) {
	weight := o.weight * o.sure * o.news
	for i, share := range o.shares {
		if share == 0 {
			continue
		}
		pull[i] += weight * share * o.pull
		row := &info[i]
		for j, other := range o.shares[:i+1] {
			row[j] += weight * share * other
		}
	}
}

// measureNoise takes the noise of the median surprise, which outliers do not
// move much.
func (l *learner) measureNoise() {
	offs := make([]float64, len(l.recent))
	for i := range l.recent {
		offs[i] = math.Abs(l.recent[i].off)
	}
	slices.Sort(offs)
	const deviations = 1.4826 // of a normal distribution, in units of its median
	median := deviations * offs[len(offs)/2]
	n := min(l.n, 100)
	noise := math.Sqrt((n*square(median) + priorWeight*square(priorNoise)) / (n + priorWeight))
	l.noise = min(max(leastNoise, noise), mostNoise)
}

// news returns what share of a request is new: all of it, unless it only
// continues the last one.
func (l *learner) news(parts Parts) float64 {
	for s, n := range l.last {
		if n > parts[s] {
			return 1
		}
	}
	return max(0.1, 1-float64(l.last.Tokens())/float64(parts.Tokens()))
}

// refit solves the regression: some rounds in which a request's pull is bounded
// (Huber's weights, which lead to the one best solution), then some in which
// what is far off hardly pulls at all (Cauchy's).
func (l *learner) refit() {
	const rounds = 4
	f := &fit{n: l.n, margin: min(max(leastMargin, noiseMargin*l.noise), mostMargin)}
	for round := range rounds {
		m, pull := l.info, l.pull
		for i := range l.recent {
			l.recent[i].add(&m, &pull)
		}
		for i := range dims {
			known := square(l.noise / prior(i))
			if i < int(scripts) {
				f.seen[i] = m[i][i] > known
			}
			m[i][i] += known
		}
		m.mirror()
		f.cov = invert(&m)
		f.mean = solveBounded(&m, &f.cov, &pull)
		for i := range l.recent {
			if round < rounds-1 {
				l.recent[i].judge(&f.mean, l.noise, round < rounds/2)
			}
		}
	}
	for i := range dims {
		if i < int(scripts) {
			f.mean[i]++ // the regression is of the deviation from 1
		}
		for j := range dims {
			f.cov[i][j] *= square(l.noise)
		}
	}
	l.fitted = f
}

// prior returns the spread of a parameter before anything is known.
func prior(parameter int) float64 {
	if parameter == overhead {
		return priorHidden
	}
	return priorSpread
}

// judge sets how well the observation fits a solution.
func (o *observation) judge(mean *vector, noise float64, mild bool) {
	off := o.pull
	for i, share := range o.shares {
		off -= share * mean[i]
	}
	deviations := math.Abs(off) * math.Sqrt(o.sure) / noise
	if mild {
		o.weight = min(1, farOff/deviations)
	} else {
		o.weight = 1 / (1 + square(deviations/farOff))
	}
}

// expect returns how many times the estimate is expected to be reported.
func (f *fit) expect(x *vector) float64 {
	sum := 0.0
	for i, share := range x {
		sum += share * f.mean[i]
	}
	return sum
}

// variance returns how uncertain that is.
func (f *fit) variance(x *vector) float64 {
	sum := 0.0
	for i, a := range x {
		if a == 0 {
			continue
		}
		for j, b := range x {
			sum += a * b * f.cov[i][j]
		}
	}
	return max(sum, 0)
}

// count returns the tokens of parts on the safe side: what is expected and a
// margin for what is known, the plain estimate for what is not, and between
// them two standard errors more than expected. Of a whole request it is with
// the overhead.
func (f *fit) count(parts Parts, whole bool) int64 {
	seen, sum := 0.0, 0.0
	for s, n := range parts {
		switch size := float64(n) / sixteenths; {
		case s == int(Media): // one picture may take what it may, whatever others took
			sum += size * max(1, f.mean[s])
			parts[s] = 0
		case !f.seen[s]:
			sum += size
			parts[s] = 0
		default:
			seen += size
		}
	}
	if seen == 0 && whole {
		sum += float64(f.overhead())
	} else if seen != 0 {
		sum += seen * f.ratio(parts, seen, whole)
	}
	return int64(math.Ceil(sum))
}

// ratio returns what the estimate of parts is multiplied with.
func (f *fit) ratio(parts Parts, size float64, whole bool) float64 {
	x := shares(parts, size)
	if !whole {
		x[overhead] = 0
	}
	before := 0.0 // the variance before anything was known
	for i, share := range x {
		before += square(share * prior(i))
	}
	hidden := x[overhead] * f.mean[overhead]
	variance := f.variance(&x)
	known := max(0, 1-variance/before)
	expected := f.expect(&x)
	margin := known * f.margin * expected
	ratio := min(expected+math.Sqrt(square(margin)+4*variance), max(1+hidden, expected+margin))
	return min(max(ratio, leastRatio), mostRatio+hidden*(1+f.margin))
}

// overhead returns the tokens that each request takes beyond its parts.
func (f *fit) overhead() int64 {
	return int64(math.Ceil(f.mean[overhead] * overheadUnit * (1 + f.margin)))
}

// learned reports whether the count of parts is known to about a tenth.
func (f *fit) learned(parts Parts) bool {
	size := float64(parts.Tokens())
	if f.n < leastRequests || size == 0 {
		return false
	}
	parts[Media] = 0
	x := shares(parts, size)
	x[overhead] = 0
	return 2*math.Sqrt(f.variance(&x)) <= 0.1*f.expect(&x)
}

// fit returns what is known of a model, or nil. A nil Calibrator knows nothing.
func (c *Calibrator) fit(model string) *fit {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.models[model]; l != nil {
		return l.fitted
	}
	return nil
}

// Count returns how many tokens the model makes of the parts, on the safe
// side: the estimate where nothing was learned.
func (c *Calibrator) Count(model string, parts Parts) int64 {
	if f := c.fit(model); f != nil {
		return f.count(parts, false)
	}
	return parts.Tokens()
}

// Request returns how many tokens a whole request of the parts takes, what is
// hidden included, on the safe side. It is known earlier and better than its
// pieces: that is what is reported.
func (c *Calibrator) Request(model string, parts Parts) int64 {
	if f := c.fit(model); f != nil {
		return f.count(parts, true)
	}
	return parts.Tokens()
}

// Overhead returns how many tokens a request to the model takes beyond its
// parts, 0 where nothing was learned.
func (c *Calibrator) Overhead(model string) int64 {
	if f := c.fit(model); f != nil {
		return f.overhead()
	}
	return 0
}

// Factor returns what the estimate of a script is multiplied with to count a
// model's tokens: 1 where nothing was learned, else the ratio learned and its
// margin, from 0.25 to 4.
func (c *Calibrator) Factor(model string, s Script) float64 {
	const many = 1 << 20
	var p Parts
	p[s] = many * sixteenths
	return float64(c.Count(model, p)) / many
}

// Learned reports whether enough was reported for the model to know the count
// of such parts to about a tenth.
func (c *Calibrator) Learned(model string, parts Parts) bool {
	f := c.fit(model)
	return f != nil && f.learned(parts)
}

func square(x float64) float64 { return x * x }
