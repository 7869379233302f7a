package main

// mutants are by the file that they break.
var mutants = []mutant{
	{"no fence", "fold.go", "return s.lease(e.Lease)\n\t}\n\tif e.Admitted", "return len(s.Leases) - 1\n\t}\n\tif e.Admitted", ".", "TestI3|TestI4"},
	{"late results counted", "fold.go", "return e.Version == s.Version", "return true", ".", "TestI2"},
	{"results move an open circuit", "fold.go", "if s.Hold != nil || s.Phase == Open {", "if s.Hold != nil {", ".", "TestI6"},
	{"throttled is a verdict", "fold.go", "if e.Outcome == Canceled || e.Outcome == Throttled {", "if e.Outcome == Canceled {", ".", "TestI5|TestI13"},
	{"canceled probe keeps its slot", "fold.go", "\t\ts.release(e)\n\t\treturn\n", "\t\treturn\n", ".", "TestI5"},
	{"renewal ignored", "fold.go", "s.Leases[i].Until = e.Until", "_ = e.Until", ".", "TestProbeThatIsRenewedKeepsItsSlot"},
	{"closing keeps the marks", "fold.go", "s.clear()\n\ts.move(Closed, t, cause)", "s.move(Closed, t, cause)", ".", "TestI7|TestOperators|TestFoldAgreesWithOracle"},
	{"cooldown does not grow", "fold.go", "if c.Growth > 1 {", "if c.Growth > 1e9 {", ".", "TestI7|TestFoldAgreesWithOracle"},
	{"older checkpoint wins", "fold.go", "e.State == nil || e.State.Version < s.Version", "e.State == nil", "./storetest", "TestMemory"},
	{"lease ignored", "state.go", "return l.Until.IsZero() || t.Before(l.Until)", "return false", ".", "TestI3"},
	{"lease without deadline", "state.go", "return l.Until.IsZero() || t.Before(l.Until)", "return true", ".", "TestI4"},
	{"window never expires", "rules.go", "if !m.At.Before(oldest) && !m.At.After(t) {", "if _ = oldest; !m.At.After(t) {", ".", "TestI10"},
	{"future counts", "rules.go", "if !m.At.Before(oldest) && !m.At.After(t) {", "if !m.At.Before(oldest) {", ".", "TestI10"},
	{"retry counted twice", "call.go", "if a.guarded.PerAttempt {", "if a.guarded.PerAttempt || err != nil {", ".", "TestCallRetriesAndReportsOneRecord"},
	{"overdue call has two votes", "circuit.go", "e.Late, e.Lease = true, \"\"", "_ = counted", ".", "TestOverdueCallHasOneVote"},
	{"lost data are not given back", "sync.go", "return best, lost && best.Version == s.Version || (lost || ahead) && best.Version > s.Version", "return best, false && lost", ".", "TestStoreThatLostItsDataIsHealed"},
	{"new identity for what is sent again", "sync.go", "\td.sent, d.busy = len(d.pending), true\n", "\td.sent, d.busy = len(d.pending), true\n\tfor i := range batch {\n\t\tbatch[i].ID = d.nextID()\n\t}\n", ".", "TestReportWhoseAnswerIsLostIsSentAgainUnderItsIDs"},
	{"sent again counts again", "redisstore/scripts.go", "if n > last then", "if n > 0 then", "./redisstore", "TestLostAnswers"},
	{"commit without the lock", "redisstore/scripts.go", "if redis.call('GET', KEYS[3]) ~= ARGV[1] then\n  return {}", "if false then\n  return {}", "./redisstore", "TestHolderThatLostTheLockCommitsNothing"},
	{"commit twice", "redisstore/scripts.go", "~= tonumber(ARGV[5]) then", "== -1 then", "./redisstore", "TestCommitThatIsRepeatedChangesNothing"},
	{"commit whoever asks", "redisstore/scripts.go", "if redis.call('GET', KEYS[3]) ~= ARGV[1] then\n  return {}\nend\nlocal known = redis.call('HMGET', KEYS[1], 'in', 'epoch')\nif tonumber(known[1] or '0') - redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[5]) then", "local known = redis.call('HMGET', KEYS[1], 'in', 'epoch')\nif false then", "./redisstore", "TestHistories"},
	{"answered before it is folded", "redisstore/fold.go", "return a.in-a.waiting >= r.position, nil", "return true, nil", "./redisstore", "TestHistories"},
	{"late results are not marked", "redisstore/fold.go", "e.MarkLate(&r.state)", "_ = e", "./redisstore", "TestLateResultIsRecordedAsLate"},
	{"lock without end", "redisstore/scripts.go", "ARGV[1], 'NX', 'PX', ARGV[2])", "ARGV[1], 'NX')", "./redisstore", "TestReporterThatDies|TestHolderThatLostTheLock"},
}
