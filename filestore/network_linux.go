package filestore

import "syscall"

// networkFileSystems are the magic numbers of statfs(2).
var networkFileSystems = map[uint32]string{
	0x6969:     "NFS",
	0x517B:     "SMB",
	0xFE534D42: "SMB",
	0xFF534D42: "CIFS",
	0x5346414F: "AFS",
	0x6B414653: "AFS",
	0x00C36400: "Ceph",
	0x73757245: "Coda",
	0x564C:     "NCP",
	0x0BD00BD0: "Lustre",
	0x47504653: "GPFS",
	0x01161970: "GFS2",
	0x7461636F: "OCFS2",
}

// networkFileSystem returns the name of the network file system that dir is
// on, and "" where it is on none.
func networkFileSystem(dir string) string {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return ""
	}
	return networkFileSystems[uint32(s.Type)]
}
