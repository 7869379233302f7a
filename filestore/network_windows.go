package filestore

import (
	"path/filepath"
	"syscall"
	"unsafe"
)

var getDriveType = syscall.NewLazyDLL("kernel32.dll").NewProc("GetDriveTypeW")

// networkFileSystem returns the name of the network drive or share that dir is
// on, and "" where it is on none.
func networkFileSystem(dir string) string {
	const remote = 4 // DRIVE_REMOTE
	volume := filepath.VolumeName(dir)
	root, err := syscall.UTF16PtrFromString(volume + `\`)
	if err != nil {
		return ""
	}
	if kind, _, _ := getDriveType.Call(uintptr(unsafe.Pointer(root))); kind == remote {
		return volume
	}
	return ""
}
