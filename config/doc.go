// Package config reads the configuration file, fusebox.yaml: one schema,
// strict, and every mistake is reported with file, line and column.
//
//	fusebox.yaml ──> tree ──> Config ──> Settings(circuit): built in for the kind
//	 (bytes)          │         │                             < patterns, least exact first
//	                  │         │                             < flags (PolicyFlags)
//	                  └─ Errors ┘
//
// Without a file there is [Default], and [Discover] for what runs on this
// machine. [Check] says what is allowed but unwise. Nothing here opens a
// connection or prints.
package config
