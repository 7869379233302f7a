package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/fusebox-go/fusebox"
)

var _ fusebox.Presence = (*Store)(nil)

// announceScript writes that a worker is there, or with a time of 0 that it no
// longer is. A new one clears those away whose time is over.
//
//	KEYS workers
//	ARGV id, ms, most workers, worker
//
// A field is "ms when seen, ms when gone, worker".
var announceScript = rueidis.NewLuaScript(`
local now = redis.call('TIME')
local t = now[1] * 1000 + math.floor(now[2] / 1000)
if ARGV[2] == '0' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  return {}
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local gone = tonumber(string.match(all[i + 1], '^%d+ (%d+) ') or '0')
    if gone <= t then
      redis.call('HDEL', KEYS[1], all[i])
    end
  end
  if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then
    return redis.error_reply('FULL as many workers are there as are listed')
  end
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %.0f ', t, t + ARGV[2]) .. ARGV[4])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {}
`)

// workersScript answers with the time (2) and all fields.
var workersScript = rueidis.NewLuaScript(`
local now = redis.call('TIME')
return {now[1], now[2], redis.call('HGETALL', KEYS[1])}
`)

// workersKey is a hash with a field for each worker that is there, by its ID.
func (s *Store) workersKey() string { return s.prefix + "workers" }

// Announce implements fusebox.Presence. It is one command.
func (s *Store) Announce(ctx context.Context, w fusebox.Worker, ttl time.Duration) error {
	w.Seen = time.Time{} // the script says it
	text, err := json.Marshal(w)
	if err == nil {
		args := []string{w.ID, millis(max(ttl, 0)), strconv.Itoa(fusebox.MaxWorkers), string(text)}
		_, _, _, err = s.link.run(ctx, announceScript, []string{s.workersKey()}, args)
	}
	if err != nil {
		return fmt.Errorf("redisstore: %s: announce this worker: %w", s.address, err)
	}
	return nil
}

// Workers implements fusebox.Presence. It waits two seconds at most, or until
// ctx ends.
func (s *Store) Workers(ctx context.Context) ([]fusebox.Worker, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for tries := 0; ; tries++ {
		there, err := s.workers(ctx)
		if err == nil {
			return there, nil
		}
		if !passes(err) || ctx.Err() != nil {
			return nil, fmt.Errorf("redisstore: %s: list workers: %w", s.address, err)
		}
		pause(ctx, away, awayMax, tries)
	}
}

func (s *Store) workers(ctx context.Context) ([]fusebox.Worker, error) {
	answer, sent, received, err := s.link.run(ctx, workersScript, []string{s.workersKey()}, nil)
	if err != nil {
		return nil, err
	}
	if len(answer) != 3 {
		return nil, errAnswer
	}
	var now time.Time
	fields, err := answer[2].AsStrSlice()
	if err == nil {
		err = readTime(&now, answer[0], answer[1])
	}
	if err != nil {
		return nil, err
	}
	s.clock.heard(sent, received, now)
	var there []fusebox.Worker
	for i := 1; i < len(fields); i += 2 {
		if w, ok := parseWorker(fields[i], now); ok {
			w.Seen = s.onServer(w.Seen)
			there = append(there, w)
		}
	}
	slices.SortFunc(there, fusebox.Worker.Compare)
	return there[:min(len(there), fusebox.MaxWorkers)], nil
}

// parseWorker reads a field of a worker that is there.
func parseWorker(field string, now time.Time) (w fusebox.Worker, ok bool) {
	parts := strings.SplitN(field, " ", 3)
	if len(parts) != 3 {
		return w, false
	}
	seen, err1 := strconv.ParseInt(parts[0], 10, 64)
	gone, err2 := strconv.ParseInt(parts[1], 10, 64)
	if err1 != nil || err2 != nil || json.Unmarshal([]byte(parts[2]), &w) != nil {
		return w, false
	}
	w.Seen = time.UnixMilli(seen).UTC()
	until := time.UnixMilli(gone)
	return w, now.Before(until) && w.Seen.Sub(now) < until.Sub(w.Seen) // else the clock was set back
}
