package replay

import "math"

// The formulas say how often noise alone opens a circuit, where calls fail
// independently of each other with probability p, 0 < p < 1. Where the result
// is the mean number of calls, divide by the calls a second for a time.

// StreakCalls is the mean number of calls until k failures in a row (Feller,
// An Introduction to Probability Theory, volume I, XIII.7).
func StreakCalls(p float64, k int) float64 {
	all := math.Pow(p, float64(k))
	return (1 - all) / ((1 - p) * all)
}

// OfCalls is the mean number of calls until k of the last m failed: the time
// between such clumps (Alm 1983, for a scan over trials), less the m-k+1 calls
// by which the first window, which is not full yet, is ahead. It is within 2 %
// of the exact number where fewer than half of the k are expected among m calls,
// and never below k/p, the calls that k failures take.
func OfCalls(p float64, k, m int) float64 {
	least := float64(k) / p
	thin := 1 - float64(m)*p/float64(k) // the share of hits that begin a clump
	if thin <= 0 {
		return least
	}
	hits := p * binomial(m-1, k-1, p) * thin
	return max(1/hits-float64(m-k+1), least)
}

// WithinSeconds is the mean time until k failures within a window of the given
// seconds, at rate calls a second that come at random (Alm 1983). It is good
// where a window has fewer than k failures on average; beyond that it is the
// time that k failures take, which it never falls below.
func WithinSeconds(p, rate float64, k int, window float64) float64 {
	failures := rate * p // a second
	least := float64(k) / failures
	mean := failures * window
	thin := 1 - mean/float64(k)
	if thin <= 0 {
		return least
	}
	return max(window+1/(thin*failures*poisson(k-1, mean)), least)
}

// binomial is the probability of k successes in n trials.
func binomial(n, k int, p float64) float64 {
	if k > n {
		return 0
	}
	choose := logFactorial(n) - logFactorial(k) - logFactorial(n-k)
	return math.Exp(choose + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// poisson is the probability of k events where mean are expected.
func poisson(k int, mean float64) float64 {
	return math.Exp(float64(k)*math.Log(mean) - mean - logFactorial(k))
}

func logFactorial(n int) float64 {
	l, _ := math.Lgamma(float64(n) + 1)
	return l
}

// wilson is the interval in which a share lies with 95 % confidence, of which
// hits in n were seen.
func wilson(hits, n int64) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.96
	p, m := float64(hits)/float64(n), float64(n)
	middle := p + z*z/(2*m)
	half := z * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	scale := 1 + z*z/m
	return max((middle-half)/scale, 0), min((middle+half)/scale, 1)
}
