package main

import (
	"encoding/binary"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/fusebox-go/fusebox"
)

type boltStore struct{ db *bbolt.DB }

func openBolt(dir string) (evidenceStore, error) {
	db, err := bbolt.Open(filepath.Join(dir, "evidence.db"), 0o600, &bbolt.Options{NoSync: true, NoFreelistSync: true, Timeout: 10 * time.Second})
	return boltStore{db}, err
}

func (b boltStore) apply(events ...fusebox.Event) error {
	return b.db.Update(func(tx *bbolt.Tx) error {
		states, err := tx.CreateBucketIfNotExists([]byte("states"))
		if err != nil {
			return err
		}
		log, err := tx.CreateBucketIfNotExists([]byte(storedCircuit))
		if err != nil {
			return err
		}
		log.FillPercent = 1 // keys only grow
		state := states.Get([]byte(storedCircuit))
		for _, e := range events {
			var event []byte
			if event, state, err = record(state, e); err != nil {
				return err
			}
			id, err := log.NextSequence()
			if err != nil {
				return err
			}
			if err := log.Put(binary.BigEndian.AppendUint64(nil, id), event); err != nil {
				return err
			}
		}
		return states.Put([]byte(storedCircuit), state)
	})
}

func (b boltStore) close() error { return b.db.Close() }
