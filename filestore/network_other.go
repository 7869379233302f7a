//go:build !linux && !darwin && !windows

package filestore

// networkFileSystem cannot tell on this system.
func networkFileSystem(string) string { return "" }
