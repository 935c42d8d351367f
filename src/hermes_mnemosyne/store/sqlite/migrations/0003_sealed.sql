-- oldest-writer: 1
-- Records that other replicas have sealed: this store keeps and relays them, and cannot read them. A record without the name of a
-- slot is the state of a row. `gone` is `slot` where nothing may stand in this slot any more, `row` where the uid was forgotten.

CREATE TABLE sealed (
    uid TEXT NOT NULL,
    slot TEXT NOT NULL,
    theme TEXT NOT NULL,
    key TEXT NOT NULL,
    clock TEXT NOT NULL,
    gone TEXT NOT NULL CHECK (gone IN ('', 'slot', 'row')),
    box BLOB NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (uid, slot)
);
CREATE INDEX sealed_by_seq ON sealed (seq);
CREATE INDEX sealed_rows ON sealed (theme, uid, gone, clock) WHERE slot = '';
