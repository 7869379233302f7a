package filestore

import "syscall"

// networkFileSystem returns the name of the network file system that dir is
// on, and "" where it is on none.
func networkFileSystem(dir string) string {
	const local = 0x1000 // MNT_LOCAL
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil || s.Flags&local != 0 {
		return ""
	}
	var name []byte
	for _, c := range s.Fstypename {
		if c == 0 {
			break
		}
		name = append(name, byte(c))
	}
	return string(name)
}
