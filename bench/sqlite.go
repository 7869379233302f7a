package main

import (
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite"

	"github.com/fusebox-go/fusebox"
)

type sqliteStore struct{ db *sql.DB }

func openSQLite(dir string) (evidenceStore, error) {
	settings := url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(OFF)"},
		"_txlock": {"immediate"}, // the lock before the read
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "evidence.db")+"?"+settings.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS states (circuit TEXT PRIMARY KEY, state BLOB);
		CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, circuit TEXT, event BLOB)`)
	return sqliteStore{db}, err
}

func (s sqliteStore) apply(events ...fusebox.Event) (err error) {
	tx, err := s.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var state, event []byte
	err = tx.QueryRow("SELECT state FROM states WHERE circuit = ?", storedCircuit).Scan(&state)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	for _, e := range events {
		if event, state, err = record(state, e); err != nil {
			return err
		}
		if _, err := tx.Exec("INSERT INTO events (circuit, event) VALUES (?, ?)", storedCircuit, event); err != nil {
			return err
		}
	}
	if _, err := tx.Exec("INSERT INTO states VALUES (?, ?) ON CONFLICT DO UPDATE SET state = excluded.state", storedCircuit, state); err != nil {
		return err
	}
	return tx.Commit()
}

func (s sqliteStore) close() error { return s.db.Close() }
