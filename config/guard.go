package config

import "github.com/fusebox-go/fusebox"

// Guard returns what is done around a circuit, besides its policy. It can serve
// as the root package's Config.Guard.
func (c *Config) Guard(circuit string) fusebox.Guard {
	s := c.Settings(circuit)
	return fusebox.Guard{
		Identify:   s.Identify,
		ThrashOff:  !s.Thrash,
		StopRun:    s.OnOpen == OnOpenStopRun,
		PerAttempt: s.Unit == UnitAttempt,
	}
}
